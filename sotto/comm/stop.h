#pragma once

#include <functional>

#include "sotto/core/error.h"

namespace sotto {

// Asked now and then by whoever waits for the other ranks to come: the number of a signal that asks this process to
// end, or 0. Empty: there is none. It stays what it is once it is not 0.
using Stop = std::function<int()>;

// A signal came while this rank waited for the others: nothing has begun that could be finished first. Exit status
// 128 + signal.
class Stopped final : public CommError {
 public:
  Stopped(const std::string& what, int signal) : CommError(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

}  // namespace sotto
