#pragma once

#include <string>
#include <string_view>

#include "sotto/core/timer.h"

namespace sotto {

// The progress line of a run, on stderr. Under our launcher it ends in '\r' ten times a second, and the launcher
// decides how to show it. On a terminal it is redrawn in place; elsewhere it is a plain line every five seconds. The
// page for Prometheus (make_metrics_page()) is in the same source.
class Progress {
 public:
  explicit Progress(std::string_view starter);
  bool due() const { return since_.seconds() >= interval_; }
  void show(const std::string& line);
  // Prints a line that stays.
  void say(const std::string& line);
  void clear();  // takes the progress line off a terminal

 private:
  enum class Style { launcher, terminal, plain };
  Style style_;
  double interval_;
  bool drawn_ = false;
  Timer since_;
};

}  // namespace sotto
