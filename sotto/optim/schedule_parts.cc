#include "sotto/optim/schedule_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace sotto {
namespace {

// The unit in which a part counts; steps count as epochs of one step.
EpochLength unit_of(const std::string& name, const Training& training) {
  return name == "epoch" ? training.epoch : EpochLength{};
}

// How much of the training after the warm-up has passed, in [0, 1].
double share_passed(const Training& training, std::uint64_t step) {
  const std::uint64_t inside = std::clamp(step, training.warmup, training.horizon) - training.warmup;
  return static_cast<double>(inside) / static_cast<double>(training.horizon - training.warmup);
}

// Falls from 1 at share 0 to 0 at share 1.
double half_cosine(double share) { return 0.5 * (1 + std::cos(std::numbers::pi * share)); }

void require_horizon(const Training& training) {
  if (training.horizon == 0) throw ConfigError("a training of 0 steps has no end to fall to");
}

}  // namespace

Factor make_constant(const NoOptions& /*options*/, const Training& /*training*/) {
  return [](std::uint64_t /*step*/) { return 1.0; };
}

Factor make_step(const StepOptions& options, const Training& training) {
  return [every = static_cast<std::uint64_t>(options.every), factor = options.factor,
          unit = unit_of(options.unit, training)](std::uint64_t step) {
    const std::uint64_t changes = unit.epoch_of(step) / every;
    return std::pow(factor, static_cast<double>(changes));
  };
}

std::optional<std::vector<std::uint64_t>> MilestoneOptions::milestones() const {
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

Factor make_milestones(const MilestoneOptions& options, const Training& training) {
  return [at = options.milestones().value(), factor = options.factor,
          unit = unit_of(options.unit, training)](std::uint64_t step) {
    const auto passed = std::upper_bound(at.begin(), at.end(), unit.epoch_of(step)) - at.begin();
    return std::pow(factor, static_cast<double>(passed));
  };
}

Factor make_cosine(const CosineOptions& options, const Training& training) {
  require_horizon(training);
  return [training, floor = options.floor](std::uint64_t step) {
    return floor + (1 - floor) * half_cosine(share_passed(training, step));
  };
}

Factor make_polynomial(const PolynomialOptions& options, const Training& training) {
  require_horizon(training);
  return [training, options](std::uint64_t step) {
    return options.floor + (1 - options.floor) * std::pow(1 - share_passed(training, step), options.power);
  };
}

Factor make_inverse_sqrt(const InverseSqrtOptions& options, const Training& training) {
  const EpochLength unit = unit_of(options.unit, training);
  const std::uint64_t flat = std::max<std::uint64_t>(1, unit.begun_before(training.warmup));
  return [unit, flat](std::uint64_t step) {
    return std::sqrt(static_cast<double>(flat) / static_cast<double>(std::max(unit.epoch_of(step) + 1, flat)));
  };
}

Factor make_time_decay(const TimeDecayOptions& options, const Training& training) {
  return [unit = unit_of(options.unit, training), rate = options.rate](std::uint64_t step) {
    return 1 / (1 + rate * static_cast<double>(unit.epoch_of(step)));
  };
}

Factor make_one_cycle(const OneCycleOptions& options, const Training& training) {
  const double length = static_cast<double>(training.horizon - training.warmup);
  const double top = options.rise * length - 1, last = length - 1;
  if (top < 0 || top >= last) {
    throw ConfigError(fmt::format("a cycle of {} steps with rise={} has no step in which it rises, or none to fall",
                                  length, options.rise));
  }
  const auto between = [linear = options.form == "linear"](double from, double to, double share) {
    return linear ? from + (to - from) * share : to + (from - to) * half_cosine(share);
  };
  const double first = 1 / options.div, end = first / options.final_div;
  return [=, begin = training.warmup](std::uint64_t step) {
    const double inside = std::min(last, static_cast<double>(std::max(step, begin) - begin));
    if (inside <= top) return between(first, 1, top == 0 ? 1 : inside / top);
    return between(1, end, (inside - top) / (last - top));
  };
}

std::string WarmupOptions::problem() const {
  if ((steps == 0) == (epochs == 0)) return "give its length, either in steps or in epochs";
  if (form == "exponential" && from == 0) return "an exponential ramp starts above 0; give from";
  return "";
}

std::uint64_t WarmupOptions::length(const Training& training) const {
  // The factor undoes rounding up before ceil(): 0.07 epochs of 100 steps are 7 steps, not 8.
  const double length =
      steps != 0 ? static_cast<double>(steps) : std::ceil(epochs * training.epoch.steps() * (1 - 1e-12));
  if (!(length < static_cast<double>(training.horizon))) {
    throw ConfigError(fmt::format("{} steps of warm-up do not fit into a training of {}", length, training.horizon));
  }
  return static_cast<std::uint64_t>(length);
}

Factor make_warmup(const WarmupOptions& options, const Training& training) {
  return
      [steps = options.length(training), from = options.from, linear = options.form == "linear"](std::uint64_t step) {
        if (step >= steps) return 1.0;
        // (step + 1): the rate of the first step is above `from`, and the last step has the full rate.
        const double share = static_cast<double>(step + 1) / static_cast<double>(steps);
        return linear ? from + (1 - from) * share : std::pow(from, 1 - share);
      };
}

}  // namespace sotto
