#include "app/launch/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr auto plain_interval = std::chrono::seconds(5);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

Console::Console(To to)
    : relays_(to == To::relay),
      terminal_(!relays_ && isatty(STDERR_FILENO) == 1),
      on_broken_pipe_(std::signal(SIGPIPE, SIG_IGN)) {}

Console::~Console() {
  clear();
  if (on_broken_pipe_ != SIG_ERR) std::signal(SIGPIPE, on_broken_pipe_);
}

// A whole line in one call, so that lines of different processes do not mix. With while_blocked() a long line goes in
// pieces, each of which a pipe with room takes without waiting.
void Console::write(std::FILE* file, std::string_view text) {
  constexpr int second = 1000;
  pollfd screen{fileno(file), POLLOUT, 0};
  int error = 0;
  while (!text.empty() && !is_mute_ && error == 0) {
    while (while_blocked_ && !is_mute_ && poll(&screen, 1, second) == 0) is_mute_ = !while_blocked_();
    const std::string_view part = text.substr(0, while_blocked_ ? std::size_t{PIPE_BUF} : text.size());
    if (!is_mute_) error = write_text(file, part);
    text.remove_prefix(part.size());
  }
  if (error == 0 || file != stdout || std::exchange(out_failed_, true)) return;
  write_text(stderr, fmt::format("sotto: standard output cannot be written to ({}); the job continues\n",
                                 std::strerror(error)));
}

void Console::message(const HostMessage& message) { write(stdout, to_line(message)); }

void Console::line(std::FILE* file, std::string_view text) {
  if (relays_) return message({file == stdout ? "out" : "err", std::string(text)});
  const std::string progress = shown_;
  clear();
  write(file, std::string(text) + "\n");
  shown_ = progress;
  redraw();
}

void Console::progress(std::string_view text) {
  const std::string line = label_ + std::string(text);
  if (relays_) return message({"progress", line});
  if (terminal_) {
    shown_ = line;
    redraw();
  } else if (printed_ == Clock::time_point{} || Clock::now() - printed_ >= plain_interval) {
    printed_ = Clock::now();
    write(stderr, line + "\n");
  }
}

void Console::clear() {
  if (shown_.empty()) return;
  write(stderr, "\r\x1b[K");
  shown_.clear();
}

void Console::redraw() {
  if (shown_.empty()) return;
  write(stderr, fmt::format("\r{}\x1b[K", std::string_view(shown_).substr(0, terminal_width() - 1)));
}

}  // namespace sotto
