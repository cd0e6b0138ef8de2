#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"

namespace sotto {

// The training that a schedule is of, in steps.
struct Training {
  std::uint64_t horizon = 0;
  std::uint64_t epoch = 1;
  std::uint64_t warmup = 0;  // that come before this part
};

// The learning rate of each step: a factor on the base rate, as a sentence `warmup(steps=500) | cosine`. The horizon is
// the length of the planned training, and does not depend on where a run is stopped or resumed.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(std::uint64_t step) const = 0;  // steps from 0
};

// A line of the table of schedules.
struct ScheduleEntry {
  std::string_view name;
  bool leads;  // stands in front of another part
  AnyOptions (*options)();
  std::unique_ptr<Schedule> (*make)(const AnyOptions& options, const Training& training);
};
const Table<ScheduleEntry>& schedule_table();

// A sentence of one part, or of a warmup and one part:
//   constant                                              1
//   step(every=N, factor=0.1, unit=step|epoch)            factor^(step / every)
//   milestones(at=30/60, factor=0.1, unit=epoch|step)     factor^(milestones reached)
//   cosine(floor=0)                                       from 1 after the warm-up to `floor` at the horizon
//   warmup(steps=N | epochs=E, from=0)                    a line to 1 at its last step, times the part after it
// Everything but the cosine counts steps from the start of training, a warm-up included.
using ScheduleSpec = std::vector<Spec<ScheduleEntry>>;

// ConfigError, with a caret, for anything else.
ScheduleSpec read_schedule(const Sentence& sentence);

// ConfigError where a part does not fit the training: a warm-up that is not shorter than the horizon, say.
std::unique_ptr<Schedule> make_schedule(const ScheduleSpec& spec, std::uint64_t horizon_steps,
                                        std::uint64_t steps_per_epoch);

}  // namespace sotto
