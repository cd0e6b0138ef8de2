#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/examples.h"
#include "sotto/core/table.h"
#include "sotto/optim/plateau.h"

namespace sotto {

// The planned training.
struct Training {
  std::uint64_t horizon = 0;  // steps of the whole training, wherever a run is stopped or resumed
  EpochLength epoch{};
  std::uint64_t warmup = 0;  // steps of the warm-up before this part of the schedule
};

// The factor by which a part multiplies the base learning rate in each step, counted from 0: a pure function of the
// step.
using Factor = std::function<double(std::uint64_t step)>;

// The factor of all parts. Users write it as an expression, such as `warmup(steps=500) | cosine`.
class Schedule {
 public:
  Schedule(std::vector<Factor> parts, std::optional<Plateau> plateau)
      : parts_(std::move(parts)), plateau_(std::move(plateau)) {}

  double operator()(std::uint64_t step) const;
  // The part that depends on evaluations; null: the factor is a pure function of the step.
  Plateau* plateau() { return plateau_ ? &*plateau_ : nullptr; }

 private:
  std::vector<Factor> parts_;
  std::optional<Plateau> plateau_;
};

// A line of the table of schedules.
struct ScheduleEntry {
  std::string_view name;
  std::string_view summary;
  bool leads;       // may stand before another part (warmup)
  bool to_horizon;  // its shape is stretched over the whole training
  AnyOptions (*options)();
  Factor (*make)(const AnyOptions& options, const Training& training);  // null: the part is a Plateau
};
const Table<ScheduleEntry>& schedule_table();

// An expression of one part, or of a warmup and one part. The factors of both are multiplied. `step`, `milestones` and
// `time-decay` count from the start of training; the others run from the end of the warm-up, most of them to the
// horizon. docs/training.md has the formulas.
using ScheduleSpec = std::vector<Spec<ScheduleEntry>>;

// ConfigError, with a caret, for anything else.
ScheduleSpec read_schedule(const Expression& expression);

// Whether a part is stretched over the whole training.
bool runs_to_horizon(const ScheduleSpec& spec);
// The part that depends on evaluations; null if there is none.
const Spec<ScheduleEntry>* plateau_of(const ScheduleSpec& spec);

// ConfigError when a part does not fit the training, such as a warm-up that is as long as the horizon.
Schedule make_schedule(const ScheduleSpec& spec, std::uint64_t horizon_steps, const EpochLength& epoch);

}  // namespace sotto
