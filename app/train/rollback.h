#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "app/train/folder/checkpoint.h"
#include "app/train/replica.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/state_copy.h"
#include "sotto/core/timer.h"

namespace sotto {

// What a rank needs to take steps again after its group has changed: its whole state at two steps, in memory. Two,
// because when a rank is lost, some of the others may have come to a step that is to be kept, and the rest have not. So
// no rank may be ahead of another by two of these steps: see GroupMembership::keeps().
class Rollback {
 public:
  // Where the states that are kept from now on belong: the number of a generation, a manifest without parts, whose step
  // does not matter, and this rank's number in the group. Forgets states from later steps than `step`.
  void begin(std::uint64_t generation, Manifest manifest, int rank, int ranks, std::uint64_t step);
  std::uint64_t begun() const { return begun_; }  // the step of the last begin()
  void forget();                                  // all states
  // Keeps the state with which `step` begins, unless it is kept already: a generation that commits no step changes
  // nothing for the next one. REQUIRES Algorithm::enter(step), and drain().
  void keep(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals totals);

  std::optional<std::uint64_t> last() const;  // the newest step that is kept
  bool has(std::uint64_t step) const { return find(step) != nullptr; }
  // The generation that came to this step first, and its manifest. REQUIRES has(step).
  std::uint64_t generation(std::uint64_t step) const { return find(step)->origin->generation; }
  Manifest manifest(std::uint64_t step) const;
  // Restores the state of that step; of the algorithm's only what it held back, by Elastic::take_over(). REQUIRES
  // has(step), and enter(step) of a new algorithm.
  void give(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals& totals);

  // Of any rank that was there: rank 0 may be another one in each generation.
  Timer since_checkpoint;

 private:
  struct Origin {
    std::uint64_t generation = 0;
    Manifest manifest;
    int rank = 0, ranks = 1;
  };
  struct Kept {
    std::optional<std::uint64_t> step;
    std::shared_ptr<const Origin> origin;
    StateCopy state;
  };
  const Kept* find(std::uint64_t step) const;

  std::uint64_t begun_ = 0;
  std::shared_ptr<const Origin> origin_;
  std::array<Kept, 2> kept_;
};

}  // namespace sotto
