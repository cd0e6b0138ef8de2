#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sotto {

// Gloo's error text, without source files and stack traces.
std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline);

}  // namespace sotto
