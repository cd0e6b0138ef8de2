#include "app/train/record/progress.h"

#include <unistd.h>

#include <cstdio>

namespace sotto {

Progress::Progress(std::string_view starter)
    : style_(starter == "sotto"      ? Style::launcher
             : isatty(STDERR_FILENO) ? Style::terminal
                                     : Style::plain),
      interval_(style_ == Style::plain ? 5.0 : 0.1) {}

void Progress::show(const std::string& line) {
  since_.lap();
  switch (style_) {
    case Style::launcher: std::fprintf(stderr, "%s\r", line.c_str()); break;
    case Style::terminal: std::fprintf(stderr, "\r\033[K%s", line.c_str()); break;
    case Style::plain: std::fprintf(stderr, "%s\n", line.c_str()); break;
  }
  drawn_ = true;
  std::fflush(stderr);
}

void Progress::clear() {
  if (style_ == Style::terminal && drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::say(const std::string& line) {
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace sotto
