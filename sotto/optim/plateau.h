#pragma once

#include <cstdint>
#include <string>

#include "sotto/core/options.h"
#include "sotto/core/state.h"

namespace sotto {

struct PlateauOptions {
  std::string metric = "goal";
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";
  std::int64_t cooldown = 0;
  double floor = 0;
  void visit(OptionVisitor& v) {
    v.option("metric", metric, "which metric of the task counts; goal: the one that decides");
    v.option("factor", factor, "multiplies the rate each time", {0, 1, true, true});
    v.option("patience", patience, "evaluations without improvement that change nothing", {0, 1e9});
    v.option("threshold", threshold, "how much better than the best so far an improvement is", Bounds::at_least(0));
    v.option("threshold-mode", threshold_mode, "as a share of the best so far, or as a number", {"rel", "abs"});
    v.option("cooldown", cooldown, "evaluations after each change that do not count", {0, 1e9});
    v.option("floor", floor, "the least factor", {0, 1, false, false});
  }
};

// The factor falls whenever more than `patience` consecutive evaluations were not better, by the threshold, than the
// best one so far: torch's ReduceLROnPlateau.
class Plateau {
 public:
  explicit Plateau(PlateauOptions options) : options_(std::move(options)) {}

  const std::string& metric() const { return options_.metric; }
  // Takes the metric of an evaluation; `rises`: larger values are better. Returns whether the factor fell.
  bool evaluated(double value, bool rises);
  double factor() const { return factor_; }
  void visit_state(StateVisitor& visitor);

 private:
  bool improves(double value, bool rises) const;

  PlateauOptions options_;
  double factor_ = 1;
  double best_ = 0;                      // counts if `any_`
  std::uint64_t any_ = 0;                // 1 after the first improvement
  std::uint64_t bad_ = 0, waiting_ = 0;  // evaluations without improvement; next evaluations that do not count
};

}  // namespace sotto
