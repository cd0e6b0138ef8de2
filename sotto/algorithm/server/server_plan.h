#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto {

// Who does what among workers and servers. The first `servers` ranks serve; they train, too, unless they are dedicated.
struct ServerPlan {
  enum class Mode : std::uint8_t { sync, async, stale };

  Mode mode = Mode::sync;
  std::uint64_t bound = 0;    // stale: steps that a worker may be ahead of the slowest
  std::size_t gradients = 1;  // sync: of so many workers make an update
  bool carry = false;         // sync: what comes too late is added to the next update
  int servers = 1;
  bool dedicated = false;
  int ranks = 1;

  int first_worker() const { return dedicated ? servers : 0; }
  bool trains(int rank) const { return rank >= first_worker(); }
  std::size_t workers() const { return static_cast<std::size_t>(ranks - first_worker()); }
  // Every worker gets every update, so that all have the same model.
  bool in_step() const { return mode == Mode::sync && gradients == workers(); }
  // What a gradient counts in the vector that the optimiser is given.
  float share() const { return mode == Mode::sync ? 1.0F / static_cast<float>(gradients) : 1.0F; }
  // What an update counts of the rate. Where each gradient makes one, all workers' together are a step of the rate; the
  // gradients themselves stay as they are, as the step of many an optimiser does not depend on their size.
  double rate_share() const { return mode == Mode::sync ? 1.0 : 1.0 / static_cast<double>(workers()); }
};

}  // namespace sotto
