#include "sotto/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

// What a part is made from: its call, and the training that it is part of.
struct Plan {
  const Sentence& sentence;
  const Call& call;
  std::uint64_t horizon;    // steps
  std::uint64_t per_epoch;  // steps
  std::uint64_t warmup;     // steps that a warm-up in front of this part takes
};

std::uint64_t steps_per(const std::string& unit, const Plan& plan) { return unit == "epoch" ? plan.per_epoch : 1; }

class Constant final : public Schedule {
 public:
  double factor(std::uint64_t /*step*/) const override { return 1; }
};

std::unique_ptr<Schedule> make_constant(const Plan& plan) {
  struct {
    void visit(OptionVisitor& /*v*/) {}
  } none;
  read_options(plan.sentence, plan.call, none);
  return std::make_unique<Constant>();
}

struct StepOptions {
  std::int64_t every = 50;
  double factor = 0.1;
  std::string unit = "step";
  void visit(OptionVisitor& v) {
    v.option("every", every, "distance of the changes", {1, 1e9, false, false});
    v.option("factor", factor, "of the rate, at each change", Bounds::positive());
    v.option("unit", unit, "what is counted", {"step", "epoch"});
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

std::unique_ptr<Schedule> make_step(const Plan& plan) {
  StepOptions options;
  read_options(plan.sentence, plan.call, options);
  return std::make_unique<StepDecay>(static_cast<std::uint64_t>(options.every) * steps_per(options.unit, plan),
                                     options.factor);
}

struct MilestoneOptions {
  std::string at;
  double factor = 0.1;
  std::string unit = "epoch";
  void visit(OptionVisitor& v) {
    v.option("at", at, "where the rate changes: 30/60/80");
    v.option("factor", factor, "of the rate, at each change", Bounds::positive());
    v.option("unit", unit, "what is counted", {"step", "epoch"});
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

// Where a caret belongs that is about the value of an option: at the value, or at the call when it was left out.
std::size_t position_of(const Call& call, std::string_view key) {
  for (const Argument& argument : call.arguments) {
    if (argument.key == key || argument.key.empty()) return argument.value_position;
  }
  return call.position;
}

std::unique_ptr<Schedule> make_milestones(const Plan& plan) {
  MilestoneOptions options;
  read_options(plan.sentence, plan.call, options);
  const auto fail = [&](std::size_t offset) {
    fail_at(plan.sentence, plan.call, position_of(plan.call, "at") + offset,
            "at must be ascending whole numbers from 1, separated by /: at=30/60/80");
  };
  std::vector<std::uint64_t> steps;
  const char* const begin = options.at.data();
  const char* const end = begin + options.at.size();
  for (const char* place = begin; place <= end;) {
    std::uint32_t value = 0;
    const auto [next, error] = std::from_chars(place, end, value);
    const std::uint64_t step = value * steps_per(options.unit, plan);
    const bool ascending = step > (steps.empty() ? 0 : steps.back());
    if (error != std::errc() || !ascending) fail(static_cast<std::size_t>(place - begin));
    if (next != end && *next != '/') fail(static_cast<std::size_t>(next - begin));
    steps.push_back(step);
    place = next + 1;
  }
  return std::make_unique<Milestones>(std::move(steps), options.factor);
}

struct CosineOptions {
  double floor = 0;
  void visit(OptionVisitor& v) { v.option("floor", floor, "what is left at the end", {0, 1, false, false}); }
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

std::unique_ptr<Schedule> make_cosine(const Plan& plan) {
  CosineOptions options;
  read_options(plan.sentence, plan.call, options);
  if (plan.horizon == 0) fail_at(plan.sentence, plan.call, plan.call.position, "a training of 0 steps has no cosine");
  return std::make_unique<Cosine>(plan.warmup, plan.horizon, options.floor);
}

struct WarmupOptions {
  std::int64_t steps = 0;
  double epochs = 0;
  double from = 0;
  void visit(OptionVisitor& v) {
    v.option("steps", steps, "length in steps", Bounds::at_least(0));
    v.option("epochs", epochs, "length in epochs", Bounds::at_least(0));
    v.option("from", from, "factor that the ramp starts above", {0, 1, false, false});
  }
};

class Warmup final : public Schedule {
 public:
  Warmup(std::uint64_t steps, double from, std::unique_ptr<Schedule> rest)
      : steps_(steps), from_(from), rest_(std::move(rest)) {}
  double factor(std::uint64_t step) const override {
    if (step >= steps_) return rest_->factor(step);
    // The first step already learns something, the last one is at the full rate.
    const double share = static_cast<double>(step + 1) / static_cast<double>(steps_);
    return (from_ + (1 - from_) * share) * rest_->factor(step);
  }

 private:
  std::uint64_t steps_;
  double from_;
  std::unique_ptr<Schedule> rest_;
};

std::unique_ptr<Schedule> make_part(const Plan& plan);

std::unique_ptr<Schedule> make_warmup(const Plan& plan) {
  WarmupOptions options;
  read_options(plan.sentence, plan.call, options);
  const auto fail = [&](const std::string& message) { fail_at(plan.sentence, plan.call, plan.call.position, message); };
  if ((options.steps == 0) == (options.epochs == 0)) fail("give its length, either in steps or in epochs");
  // A little less, so that 0.07 epochs of 100 steps are 7 and not 8.
  const double length = options.steps != 0
                            ? static_cast<double>(options.steps)
                            : std::ceil(options.epochs * static_cast<double>(plan.per_epoch) * (1 - 1e-12));
  if (!(length < static_cast<double>(plan.horizon))) {
    fail(fmt::format("{} steps of warm-up do not fit into a training of {}", length, plan.horizon));
  }
  const auto steps = static_cast<std::uint64_t>(length);
  std::unique_ptr<Schedule> rest = std::make_unique<Constant>();
  if (plan.sentence.calls.size() == 2) {
    rest = make_part({plan.sentence, plan.sentence.calls[1], plan.horizon, plan.per_epoch, steps});
  }
  return std::make_unique<Warmup>(steps, options.from, std::move(rest));
}

struct Part {
  std::string_view name;
  std::unique_ptr<Schedule> (*make)(const Plan& plan);
  bool leads;  // stands in front of another part
};

constexpr std::array table{
    Part{"constant", make_constant, false},     Part{"step", make_step, false},
    Part{"milestones", make_milestones, false}, Part{"cosine", make_cosine, false},
    Part{"warmup", make_warmup, true},
};

std::unique_ptr<Schedule> make_part(const Plan& plan) {
  const auto& calls = plan.sentence.calls;
  const Part& part = require_entry(std::span<const Part>(table), "schedule", plan.sentence, plan.call);
  const bool first = &plan.call == &calls.front();
  if (part.leads && !first) fail_at(plan.sentence, plan.call, plan.call.position, "stands in front of the other part");
  const std::size_t most = part.leads || !first ? 2 : 1;
  if (calls.size() > most) {
    fail_at(plan.sentence, calls[most], calls[most].position, "a schedule is one part, or a warmup and one part");
  }
  return part.make(plan);
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(std::string_view where, std::string_view text, std::uint64_t horizon_steps,
                                        std::uint64_t steps_per_epoch) {
  if (steps_per_epoch == 0) throw std::logic_error("make_schedule: an epoch has at least one step");
  const Sentence sentence = parse_sentence(where, text);
  return make_part({sentence, sentence.calls.front(), horizon_steps, steps_per_epoch, 0});
}

}  // namespace sotto
