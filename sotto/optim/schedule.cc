#include "sotto/optim/schedule.h"

#include <algorithm>
#include <array>

#include "sotto/optim/schedule_parts.h"

namespace sotto {
namespace {

template <auto Make>
constexpr ScheduleEntry entry(std::string_view name, std::string_view summary) {
  return {name, summary, false, false, Made<Make>::options, Made<Make>::make};
}

template <auto Make>
constexpr ScheduleEntry stretched(std::string_view name, std::string_view summary) {
  return {name, summary, false, true, Made<Make>::options, Made<Make>::make};
}

constexpr std::array entries{
    entry<make_constant>("constant", "the base rate"),
    entry<make_step>("step", "multiplies the rate by a factor every `every` steps or epochs"),
    entry<make_milestones>("milestones", "multiplies the rate by a factor at given steps or epochs"),
    stretched<make_cosine>("cosine", "falls to the end along half a cosine"),
    stretched<make_polynomial>("polynomial", "falls to the end in a straight line, or with a power"),
    entry<make_inverse_sqrt>("inverse-sqrt", "falls with the root of the steps or epochs"),
    entry<make_time_decay>("time-decay", "1 / (1 + rate * steps or epochs)"),
    stretched<make_one_cycle>("one-cycle", "rises, and falls far below where it began"),
    ScheduleEntry{"plateau", "multiplies the rate by a factor when evaluations have stopped improving", false, false,
                  [] { return AnyOptions(PlateauOptions{}); }, nullptr},
    ScheduleEntry{"warmup", "rises to the base rate; stands before another part", true, false,
                  Made<make_warmup>::options, Made<make_warmup>::make},
};
constexpr Table<ScheduleEntry> table("schedule", entries);

}  // namespace

const Table<ScheduleEntry>& schedule_table() { return table; }

ScheduleSpec read_schedule(const Expression& expression) {
  ScheduleSpec spec;
  for (const Call& call : expression.calls) {
    spec.push_back(table.read(expression, call));
    const std::size_t most = spec.front().entry->leads ? 2 : 1;
    if (spec.size() > most)
      fail_at(expression, call, call.position, "a schedule is one part, or a warmup and one part");
    if (spec.back().entry->leads && spec.size() > 1) {
      fail_at(expression, call, call.position, "stands in front of the other part");
    }
  }
  return spec;
}

Schedule make_schedule(const ScheduleSpec& spec, std::uint64_t horizon_steps, const EpochLength& epoch) {
  Training training{horizon_steps, epoch};
  std::vector<Factor> parts;
  std::optional<Plateau> plateau;
  for (const Spec<ScheduleEntry>& part : spec) {
    if (part.entry->make == nullptr) {
      plateau.emplace(part.options.as<PlateauOptions>());
      continue;
    }
    parts.push_back(with_place(part, [&] { return part.entry->make(part.options, training); }));
    if (part.entry->leads) training.warmup = part.options.as<WarmupOptions>().length(training);
  }
  return {std::move(parts), std::move(plateau)};
}

double Schedule::operator()(std::uint64_t step) const {
  double factor = plateau_ ? plateau_->factor() : 1;
  for (const Factor& part : parts_) factor *= part(step);
  return factor;
}

bool runs_to_horizon(const ScheduleSpec& spec) {
  return std::ranges::any_of(spec, [](const auto& part) { return part.entry->to_horizon; });
}

const Spec<ScheduleEntry>* plateau_of(const ScheduleSpec& spec) {
  const auto found = std::ranges::find_if(spec, [](const auto& part) { return part.entry->make == nullptr; });
  return found == spec.end() ? nullptr : &*found;
}

}  // namespace sotto
