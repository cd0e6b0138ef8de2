#include "sotto/comm/tcp/refusals.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "sotto/core/output.h"

namespace sotto {

TcpRefusals::TcpRefusals(std::string who, std::size_t silent, Say say)
    : who_(std::move(who)), silent_(silent), say_(std::move(say)) {}

TcpRefusals::~TcpRefusals() {
  if (unsaid_ > 0) say_(fmt::format("{}: connections refused since the last line: {}", who_, unsaid_));
}

void TcpRefusals::add(const std::string& from, const std::string& reason, Clock::time_point now) {
  if (now < next_) {
    ++unsaid_;
    return;
  }
  next_ = now + std::chrono::seconds(1);
  const auto more = std::exchange(unsaid_, 0);
  const std::string before = more > 0 ? fmt::format(" ({} more before it)", more) : "";
  say_(fmt::format("{}: refused a connection from {}{}: {}", who_, from, before, reason));
}

void TcpRefusals::add_silent(const std::string& from, Clock::time_point now) {
  if (silent_ == 0) return add(from, "it closed without saying who it is", now);
  --silent_;
}

void TcpRefusals::to_stderr(const std::string& line) { print_error("sotto: " + line + "\n"); }

}  // namespace sotto
