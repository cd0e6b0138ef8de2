#pragma once

#include <bit>
#include <cstdint>

#include "sotto/core/state.h"

namespace sotto {

// What a run has used for training so far, over all its starts: on this rank, without evaluations.
struct RunTotals {
  double seconds = 0;
  std::uint64_t bytes_sent = 0;  // by steps

  void visit_state(StateVisitor& visitor) {
    auto bits = std::bit_cast<std::uint64_t>(seconds);
    visitor.visit("run/seconds", bits);
    seconds = std::bit_cast<double>(bits);
    visitor.visit("run/bytes-sent", bytes_sent);
  }
};

}  // namespace sotto
