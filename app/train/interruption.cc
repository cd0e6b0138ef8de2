#include "app/train/interruption.h"

#include <fmt/format.h>

#include <span>

#include "app/train/stop_signal.h"

namespace sotto {

bool Interruption::wished(bool can_go_on) const {
  return StopSignal::caught() != 0 || error_ || (is_late() && can_go_on);
}

int Interruption::agreed_urgency(Communicator& communicator) const {
  auto urgency =
      static_cast<double>(error_ ? StopSignal::failed_rank + rank_ : StopSignal::urgency(StopSignal::caught()));
  communicator.all_reduce(std::span(&urgency, 1), ReduceOp::max);
  return static_cast<int>(urgency);
}

bool Interruption::agreed_late(Communicator& communicator) const {
  auto late = is_late() ? 1.0F : 0.0F;
  communicator.all_reduce(std::span(&late, 1), ReduceOp::max);
  return late > 0;
}

void Interruption::end_in_error(int failed_rank, std::uint64_t done) const {
  if (error_) std::rethrow_exception(error_);
  throw CommError(fmt::format("rank {} ended the run after step {} because of an error", failed_rank, done));
}

}  // namespace sotto
