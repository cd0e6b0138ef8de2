#include "sotto/algorithm/roll_call.h"

#include <span>

namespace sotto {

void RollCall::run(Communicator& communicator) {
  for (float waits = 1; waits > 0;) {
    {
      Lock lock(mutex_);
      moved_.wait_for(lock, communicator.deadlines().least() / 4,
                      [this]() SOTTO_REQUIRES(mutex_) { return place_ != Place::computing; });
      if (place_ == Place::gone) return;
      waits = place_ == Place::computing ? 1 : 0;
    }
    communicator.all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
}

void RollCall::move_to(Place place) {
  {
    const Lock lock(mutex_);
    place_ = place;
  }
  moved_.notify_all();
}

}  // namespace sotto
