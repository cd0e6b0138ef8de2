#include "sotto/algorithm/algorithm.h"

#include "sotto/core/timer.h"

namespace sotto {

StepReport Step::report(double seconds) const {
  return {{seconds, seconds - wait, wait, queue, timings}, loss, stops, meets};
}

StepReport Algorithm::step(Worker& worker, const StepInput& input) {
  const Timer timer;
  Step now{input};
  now.key = {options_.seed, static_cast<std::uint16_t>(communicator_.rank()), options_.generation,
             static_cast<std::uint32_t>(input.step)};
  Following* following = elastic_ != nullptr ? elastic_->following() : nullptr;
  run_step(following != nullptr ? following->of(worker) : worker, now);
  return now.report(timer.seconds());
}

}  // namespace sotto
