#include "sotto/algorithm/local/roll_call.h"

#include <span>

namespace sotto {

void RollCall::run(Communicator& communicator) {
  bool computes = true;
  for (float waits = 1; waits > 0;) {
    if (computes) computes = !calls_.try_acquire_for(communicator.deadline() / 4);
    if (has_left_) return;
    waits = computes ? 1 : 0;
    communicator.all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
}

}  // namespace sotto
