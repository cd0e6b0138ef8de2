#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/options.h"
#include "sotto/optim/schedule.h"

namespace sotto {

// The parts in the table of schedule.cc. `training` says where they begin and end. Steps are numbered as in torch's
// schedulers.

Factor make_constant(const NoOptions& options, const Training& training);

// factor^(step / every), rounded down: torch's StepLR.
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
Factor make_step(const StepOptions& options, const Training& training);

// factor^(milestones reached): torch's MultiStepLR.
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
  std::optional<std::vector<std::uint64_t>> milestones() const;
  std::string problem() const {
    return milestones() ? "" : "at must be ascending whole numbers from 1, separated by /: at=30/60/80";
  }
};
Factor make_milestones(const MilestoneOptions& options, const Training& training);

// Falls from 1 after the warm-up to `floor` at the horizon, along half a cosine: torch's CosineAnnealingLR.
struct CosineOptions {
  double floor = 0;
  void visit(OptionVisitor& v) { v.option("floor", floor, "the factor at the end", {0, 1, false, false}); }
};
Factor make_cosine(const CosineOptions& options, const Training& training);

// Falls from 1 after the warm-up to `floor` at the horizon: floor + (1 - floor) * (1 - share)^power, torch's
// PolynomialLR.
struct PolynomialOptions {
  double power = 1;
  double floor = 0;
  void visit(OptionVisitor& v) {
    v.option("power", power, "1 falls in a straight line", Bounds::positive());
    v.option("floor", floor, "the factor at the end", {0, 1, false, false});
  }
};
Factor make_polynomial(const PolynomialOptions& options, const Training& training);

// In step or epoch n = 1, 2 ..: 1 until n = w, and then sqrt(w / n), where w is the length of the warm-up, or 1 without
// one. After a linear warm-up this is the schedule of Vaswani et al., NeurIPS 2017. Without a warm-up it is 1/sqrt(n).
struct InverseSqrtOptions {
  std::string unit = "step";
  void visit(OptionVisitor& v) { v.option("unit", unit, "what is counted", {"step", "epoch"}); }
};
Factor make_inverse_sqrt(const InverseSqrtOptions& options, const Training& training);

// 1 / (1 + rate * n) after n steps or whole epochs.
struct TimeDecayOptions {
  double rate = 0.001;
  std::string unit = "step";
  void visit(OptionVisitor& v) {
    v.option("rate", rate, "how fast the rate falls", Bounds::positive());
    v.option("unit", unit, "what is counted", {"step", "epoch"});
  }
};
Factor make_time_decay(const TimeDecayOptions& options, const Training& training);

// Rises from 1/div to 1 during the share `rise` of the training, and then falls to 1/(div * final-div) at its last step
// (Smith, Topin, 2019): torch's OneCycleLR with two phases. Momentum stays as it is.
struct OneCycleOptions {
  double rise = 0.3;
  double div = 25;
  double final_div = 1e4;
  std::string form = "cosine";
  void visit(OptionVisitor& v) {
    v.option("rise", rise, "share of the training in which the rate rises", {0, 1, true, true});
    v.option("div", div, "the first rate is the base rate divided by this", Bounds::at_least(1));
    v.option("final-div", final_div, "the last rate is the first one divided by this", Bounds::at_least(1));
    v.option("form", form, "along half a cosine, or in a straight line", {"cosine", "linear"});
  }
};
Factor make_one_cycle(const OneCycleOptions& options, const Training& training);

// Rises from `from` to 1 at its last step.
struct WarmupOptions {
  std::int64_t steps = 0;
  double epochs = 0;
  double from = 0;
  std::string form = "linear";
  void visit(OptionVisitor& v) {
    v.option("steps", steps, "length in steps", Bounds::at_least(0));
    v.option("epochs", epochs, "length in epochs", Bounds::at_least(0));
    v.option("from", from, "the factor from which the ramp starts", {0, 1, false, false});
    v.option("form", form, "in a straight line, or by the same factor in each step", {"linear", "exponential"});
  }
  std::string problem() const;
  // In steps. ConfigError if it does not fit into the training.
  std::uint64_t length(const Training& training) const;
};
Factor make_warmup(const WarmupOptions& options, const Training& training);

}  // namespace sotto
