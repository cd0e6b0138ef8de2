#include "sotto/cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>

namespace sotto {
namespace {

constexpr auto plain_interval = std::chrono::seconds(5);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

// A whole line in one call, so that lines of different processes do not mix.
void write_line(std::FILE* file, std::string_view line) {
  fmt::print(file, "{}\n", line);
  std::fflush(file);
}

}  // namespace

Console::Console() : terminal_(isatty(STDERR_FILENO) == 1) {}

Console::~Console() { clear(); }

void Console::line(std::FILE* file, std::string_view text) {
  const std::string progress = shown_;
  clear();
  write_line(file, text);
  shown_ = progress;
  redraw();
}

void Console::progress(std::string_view text) {
  const std::string line = label_ + std::string(text);
  if (terminal_) {
    shown_ = line;
    redraw();
  } else if (printed_ == Clock::time_point{} || Clock::now() - printed_ >= plain_interval) {
    printed_ = Clock::now();
    write_line(stderr, line);
  }
}

void Console::clear() {
  if (shown_.empty()) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_.clear();
}

void Console::redraw() {
  if (shown_.empty()) return;
  fmt::print(stderr, "\r{}\x1b[K", std::string_view(shown_).substr(0, terminal_width() - 1));
  std::fflush(stderr);
}

}  // namespace sotto
