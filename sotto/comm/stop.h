#pragma once

#include <functional>
#include <string>

#include "sotto/core/error.h"

namespace sotto {

// Called now and then while a rank waits for the others to come. Returns the number of a signal that asks this process
// to end, or 0; once it is not 0, it does not change. An empty function means that there is none.
using Stop = std::function<int()>;

// A signal came while this rank waited for the others, before there was any work to finish. Exit status 128 + signal.
class Stopped final : public CommError {
 public:
  Stopped(const std::string& what, int signal) : CommError(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

inline void throw_if_stopped(const Stop& stop, const std::string& what = "stopped") {
  if (const int signal = stop ? stop() : 0; signal != 0) throw Stopped(what, signal);
}

}  // namespace sotto
