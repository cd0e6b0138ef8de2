#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sotto {

// What Gloo says, without its source files and stack traces.
std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline);

// The same with its cause, which the peer or another rank reported; empty: nobody did. A peer that reported closed its
// connections itself, and neither ended nor was killed.
std::string reason_with(const std::string& reason, const std::string& cause);

}  // namespace sotto
