#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sotto {

// The reason of a rank whose peer has closed its connections.
inline constexpr const char* peer_ended = "the connection was closed: the peer ended or was killed";

// Gloo's error text, without source files and stack traces.
std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline);

// The reason together with its cause, which the peer or another rank reported; empty: nobody reported one. A peer that
// reported a cause closed its connections itself; it did not end and was not killed.
std::string reason_with(const std::string& reason, const std::string& cause);

}  // namespace sotto
