#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"

namespace sotto {

// The planned training. All lengths are in steps.
struct Training {
  std::uint64_t horizon = 0;  // of the whole training, wherever a run is stopped or resumed
  std::uint64_t epoch = 1;    // of one epoch
  std::uint64_t warmup = 0;   // of the warm-up before this part of the schedule
};

// The factor by which the base learning rate is multiplied in each step. Users write it as a sentence, such as
// `warmup(steps=500) | cosine`.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(std::uint64_t step) const = 0;  // steps from 0
};

// A line of the table of schedules.
struct ScheduleEntry {
  std::string_view name;
  bool leads;  // may stand before another part (warmup)
  AnyOptions (*options)();
  std::unique_ptr<Schedule> (*make)(const AnyOptions& options, const Training& training);
};
const Table<ScheduleEntry>& schedule_table();

// A sentence of one part, or of a warmup and one part:
//   constant                                              1
//   step(every=N, factor=0.1, unit=step|epoch)            factor^(step / every)
//   milestones(at=30/60, factor=0.1, unit=epoch|step)     factor^(milestones reached)
//   cosine(floor=0)                                       falls from 1 after the warm-up to `floor` at the horizon
//   warmup(steps=N | epochs=E, from=0)                    rises linearly to 1 at its last step, times the other part
// All parts but `cosine` count steps from the start of training; `cosine` counts from the end of the warm-up.
using ScheduleSpec = std::vector<Spec<ScheduleEntry>>;

// ConfigError, with a caret, for anything else.
ScheduleSpec read_schedule(const Sentence& sentence);

// ConfigError when a part does not fit the training, such as a warm-up that is as long as the horizon.
std::unique_ptr<Schedule> make_schedule(const ScheduleSpec& spec, std::uint64_t horizon_steps,
                                        std::uint64_t steps_per_epoch);

}  // namespace sotto
