#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace sotto {

// The learning rate of each step: a factor on the base rate, as a sentence `warmup(steps=500) | cosine`. The horizon is the
// length of the planned training, and does not depend on where a run is stopped or resumed.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(std::uint64_t step) const = 0;  // steps from 0
};

// Parts: constant; step(every=N steps, factor=0.1); milestones(at=30/60/80, factor=0.1, unit=epoch); cosine(floor=0);
// warmup(steps=N | epochs=E, from=0) in front of one of them. `where` names the flag in errors.
std::unique_ptr<Schedule> make_schedule(std::string_view where, std::string_view sentence, std::uint64_t horizon_steps,
                                        std::uint64_t steps_per_epoch);

}  // namespace sotto
