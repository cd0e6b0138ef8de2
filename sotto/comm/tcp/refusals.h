#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "sotto/core/text.h"
#include "sotto/core/timer.h"

namespace sotto {

// Says which connections a rank's door, or a relay, refuses: at most one line a second, so that a crowd of strangers
// does not fill the log. The next line, or the last one at the end, has the number of refusals that got none.
class TcpRefusals {
 public:
  using Say = std::function<void(const std::string& line)>;

  // `who` refuses, such as "rank 3". At first `silent` connections may close without a word: a member does so if its
  // peer's connection came first.
  TcpRefusals(std::string who, std::size_t silent, Say say = to_stderr)
      : who_(std::move(who)), silent_(silent), say_(std::move(say)) {}
  static void to_stderr(const std::string& line) { print_error("sotto: " + line + "\n"); }
  ~TcpRefusals() {
    if (unsaid_ > 0) say_(fmt::format("{}: connections refused since the last line: {}", who_, unsaid_));
  }
  TcpRefusals(const TcpRefusals&) = delete;
  TcpRefusals& operator=(const TcpRefusals&) = delete;

  // A connection from that address was refused; the reason is a whole clause.
  void add(const std::string& from, const std::string& reason, Clock::time_point now = Clock::now()) {
    if (now < next_) {
      ++unsaid_;
      return;
    }
    next_ = now + std::chrono::seconds(1);
    const auto more = std::exchange(unsaid_, 0);
    const std::string before = more > 0 ? fmt::format(" ({} more before it)", more) : "";
    say_(fmt::format("{}: refused a connection from {}{}: {}", who_, from, before, reason));
  }
  // A connection closed before it said who it is.
  void add_silent(const std::string& from, Clock::time_point now = Clock::now()) {
    if (silent_ == 0) return add(from, "it closed without saying who it is", now);
    --silent_;
  }

 private:
  std::string who_;
  std::size_t silent_;
  Say say_;
  Clock::time_point next_ = Clock::time_point::min();  // when the next line may come
  std::size_t unsaid_ = 0;
};

}  // namespace sotto
