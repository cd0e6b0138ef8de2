#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "app/launch/host_message.h"
#include "sotto/core/timer.h"

namespace sotto {

// What several processes print, on one screen: ordinary lines, and one progress line. When stderr is a terminal the
// progress line is redrawn in place, cut to its width; otherwise it is printed as an ordinary line, once every few
// seconds. A failure to write (the disk is full, nobody reads the pipe any more) is reported once; the job continues
// without its lines. SIGPIPE is ignored while this lives.
class Console {
 public:
  // `relay`: for the launcher on another machine, lines and progress become messages (host_message.h) on stdout.
  enum class To { screen, relay };
  explicit Console(To to = To::screen);
  ~Console();  // takes the progress line away
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Puts this text in front of the progress lines from now on.
  void label(std::string text) { label_ = std::move(text); }
  void line(std::FILE* file, std::string_view text);  // to stdout or stderr
  void progress(std::string_view text);
  void clear();                              // the progress line, from the screen
  void message(const HostMessage& message);  // to the launcher; REQUIRES To::relay
  // `work` is called about every second in which the screen takes no line (Ctrl-S, a pager that nobody scrolls). It
  // returns whether to wait longer; if not, nothing more is written. Null: no work is called.
  void while_blocked(std::function<bool()> work) { while_blocked_ = std::move(work); }

 private:
  void redraw();
  void write(std::FILE* file, std::string_view text);

  bool relays_;
  bool terminal_;
  bool out_failed_ = false;
  void (*on_broken_pipe_)(int);
  bool is_mute_ = false;
  std::function<bool()> while_blocked_;
  std::string label_;
  std::string shown_;  // the progress line on the screen
  Clock::time_point printed_{};
};

}  // namespace sotto
