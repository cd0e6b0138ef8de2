#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sotto {

// What Gloo says, without its source files and stack traces.
std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline);

}  // namespace sotto
