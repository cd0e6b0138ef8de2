#include "sotto/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

std::uint64_t steps_per(const std::string& unit, const Training& training) {
  return unit == "epoch" ? training.epoch : 1;
}

class Constant final : public Schedule {
 public:
  double factor(std::uint64_t /*step*/) const override { return 1; }
};

std::unique_ptr<Schedule> make_constant(const NoOptions& /*options*/, const Training& /*training*/) {
  return std::make_unique<Constant>();
}

struct StepOptions {
  std::int64_t every = 50;
  double factor = 0.1;
  std::string unit = "step";
  void visit(OptionVisitor& v) {
    v.option("every", every, "steps or epochs between changes", {1, 1e9, false, false});
    v.option("factor", factor, "multiplies the rate at each change", Bounds::positive());
    v.option("unit", unit, "unit of `every`", {"step", "epoch"});
  }
};

class StepDecay final : public Schedule {
 public:
  StepDecay(std::uint64_t every, double factor) : every_(every), factor_(factor) {}
  double factor(std::uint64_t step) const override {
    const std::uint64_t changes = step / every_;
    return std::pow(factor_, static_cast<double>(changes));
  }

 private:
  std::uint64_t every_;
  double factor_;
};

std::unique_ptr<Schedule> make_step(const StepOptions& options, const Training& training) {
  return std::make_unique<StepDecay>(static_cast<std::uint64_t>(options.every) * steps_per(options.unit, training),
                                     options.factor);
}

struct MilestoneOptions {
  std::string at;
  double factor = 0.1;
  std::string unit = "epoch";
  void visit(OptionVisitor& v) {
    v.option("at", at, "where the rate changes: 30/60/80");
    v.option("factor", factor, "multiplies the rate at each change", Bounds::positive());
    v.option("unit", unit, "unit of `at`", {"step", "epoch"});
  }
  // The numbers of `at`; nothing unless they are ascending whole numbers from 1.
  std::optional<std::vector<std::uint64_t>> milestones() const {
    std::vector<std::uint64_t> milestones;
    const char* const end = at.data() + at.size();
    for (const char* place = at.data(); place <= end;) {
      std::uint32_t value = 0;
      const auto [next, error] = std::from_chars(place, end, value);
      const bool ascending = value > (milestones.empty() ? 0 : milestones.back());
      if (error != std::errc() || !ascending || (next != end && *next != '/')) return std::nullopt;
      milestones.push_back(value);
      place = next + 1;
    }
    return milestones;
  }
  std::string problem() const {
    return milestones() ? "" : "at must be ascending whole numbers from 1, separated by /: at=30/60/80";
  }
};

class Milestones final : public Schedule {
 public:
  Milestones(std::vector<std::uint64_t> steps, double factor) : steps_(std::move(steps)), factor_(factor) {}
  double factor(std::uint64_t step) const override {
    const auto passed = std::upper_bound(steps_.begin(), steps_.end(), step) - steps_.begin();
    return std::pow(factor_, static_cast<double>(passed));
  }

 private:
  std::vector<std::uint64_t> steps_;  // ascending
  double factor_;
};

std::unique_ptr<Schedule> make_milestones(const MilestoneOptions& options, const Training& training) {
  std::vector<std::uint64_t> steps = options.milestones().value();
  for (std::uint64_t& step : steps) step *= steps_per(options.unit, training);
  return std::make_unique<Milestones>(std::move(steps), options.factor);
}

struct CosineOptions {
  double floor = 0;
  void visit(OptionVisitor& v) { v.option("floor", floor, "the factor at the end", {0, 1, false, false}); }
};

class Cosine final : public Schedule {
 public:
  Cosine(std::uint64_t begin, std::uint64_t end, double floor) : begin_(begin), end_(end), floor_(floor) {}
  double factor(std::uint64_t step) const override {
    const std::uint64_t inside = std::clamp(step, begin_, end_) - begin_;
    const double share = static_cast<double>(inside) / static_cast<double>(end_ - begin_);
    return floor_ + (1 - floor_) * 0.5 * (1 + std::cos(std::numbers::pi * share));
  }

 private:
  std::uint64_t begin_, end_;
  double floor_;
};

std::unique_ptr<Schedule> make_cosine(const CosineOptions& options, const Training& training) {
  if (training.horizon == 0) throw ConfigError("a training of 0 steps has no cosine");
  return std::make_unique<Cosine>(training.warmup, training.horizon, options.floor);
}

struct WarmupOptions {
  std::int64_t steps = 0;
  double epochs = 0;
  double from = 0;
  void visit(OptionVisitor& v) {
    v.option("steps", steps, "length in steps", Bounds::at_least(0));
    v.option("epochs", epochs, "length in epochs", Bounds::at_least(0));
    v.option("from", from, "the factor from which the ramp starts", {0, 1, false, false});
  }
  std::string problem() const {
    return (steps == 0) == (epochs == 0) ? "give its length, either in steps or in epochs" : "";
  }
  std::uint64_t length(const Training& training) const {
    // The factor undoes rounding up before ceil(): 0.07 epochs of 100 steps are 7 steps, not 8.
    const double length =
        steps != 0 ? static_cast<double>(steps) : std::ceil(epochs * static_cast<double>(training.epoch) * (1 - 1e-12));
    if (!(length < static_cast<double>(training.horizon))) {
      throw ConfigError(fmt::format("{} steps of warm-up do not fit into a training of {}", length, training.horizon));
    }
    return static_cast<std::uint64_t>(length);
  }
};

class Warmup final : public Schedule {
 public:
  Warmup(std::uint64_t steps, double from) : steps_(steps), from_(from) {}
  double factor(std::uint64_t step) const override {
    if (step >= steps_) return 1;
    // (step + 1): the rate of the first step is above `from`, and the last step has the full rate.
    const double share = static_cast<double>(step + 1) / static_cast<double>(steps_);
    return from_ + (1 - from_) * share;
  }

 private:
  std::uint64_t steps_;
  double from_;
};

std::unique_ptr<Schedule> make_warmup(const WarmupOptions& options, const Training& training) {
  return std::make_unique<Warmup>(options.length(training), options.from);
}

// The factors of several parts, multiplied.
class Product final : public Schedule {
 public:
  explicit Product(std::vector<std::unique_ptr<Schedule>> parts) : parts_(std::move(parts)) {}
  double factor(std::uint64_t step) const override {
    double factor = 1;
    for (const auto& part : parts_) factor *= part->factor(step);
    return factor;
  }

 private:
  std::vector<std::unique_ptr<Schedule>> parts_;
};

template <auto Make>
constexpr ScheduleEntry entry(std::string_view name, bool leads = false) {
  return {name, leads, Made<Make>::options, Made<Make>::make};
}

constexpr std::array entries{
    entry<make_constant>("constant"), entry<make_step>("step"),           entry<make_milestones>("milestones"),
    entry<make_cosine>("cosine"),     entry<make_warmup>("warmup", true),
};
constexpr Table<ScheduleEntry> table("schedule", entries);

}  // namespace

const Table<ScheduleEntry>& schedule_table() { return table; }

ScheduleSpec read_schedule(const Sentence& sentence) {
  ScheduleSpec spec;
  for (const Call& call : sentence.calls) {
    spec.push_back(table.read(sentence, call));
    const std::size_t most = spec.front().entry->leads ? 2 : 1;
    if (spec.size() > most) fail_at(sentence, call, call.position, "a schedule is one part, or a warmup and one part");
    if (spec.back().entry->leads && spec.size() > 1) {
      fail_at(sentence, call, call.position, "stands in front of the other part");
    }
  }
  return spec;
}

std::unique_ptr<Schedule> make_schedule(const ScheduleSpec& spec, std::uint64_t horizon_steps,
                                        std::uint64_t steps_per_epoch) {
  if (steps_per_epoch == 0) throw std::logic_error("make_schedule: an epoch has at least one step");
  Training training{horizon_steps, steps_per_epoch};
  std::vector<std::unique_ptr<Schedule>> parts;
  for (const Spec<ScheduleEntry>& part : spec) {
    parts.push_back(with_place(part, [&] { return part.entry->make(part.options, training); }));
    if (part.entry->leads) training.warmup = part.options.as<WarmupOptions>().length(training);
  }
  return std::make_unique<Product>(std::move(parts));
}

}  // namespace sotto
