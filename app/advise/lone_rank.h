#pragma once

#include <cstdint>
#include <functional>

#include "app/advise/replay.h"
#include "app/train/options/choices.h"
#include "app/train/replica.h"

namespace sotto {

// Takes the steps of a rank, and exchanges nothing. One thread uses it.
class LoneRank {
 public:
  LoneRank(const Choices& choices, Task& task);

  Replica& replica() { return replica_; }
  // `ready` sees each bucket when it holds what would be exchanged, unless it is empty. NumericError if training
  // diverges.
  ComputeTimes step(const std::function<void(std::size_t bucket)>& ready);

 private:
  double lr_;
  Replica replica_;
  bool overlap_;
  std::uint64_t step_ = 0;
};

}  // namespace sotto
