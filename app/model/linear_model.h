#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "app/model/model.h"
#include "sotto/core/examples.h"
#include "sotto/core/layout.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

// A linear function of sparse rows: output = weight . row + bias. The gradient is zero at features that no row has,
// unless l1 or l2 is set.
class LinearModel : public Model {
 public:
  // gradient() += scale * d(mean loss of the rows + l1 |weight|_1 + l2/2 |weight|^2)/d(parameters); returns the mean
  // loss, without the two penalties. Also writes `outputs`, one for each row.
  virtual double accumulate_gradient(std::span<const Row> rows, float scale, const SegmentCalls& calls,
                                     std::span<float> outputs) = 0;
  // Writes the output of each row, and returns the sum of their losses.
  virtual double evaluate(std::span<const Row> rows, std::span<float> outputs) = 0;
};

struct LinearOptions {
  double l1 = 0, l2 = 0;
  void visit(OptionVisitor& v) {
    v.option("l1", l1, "penalty of the weights' magnitudes, which makes many of them small", Bounds::at_least(0));
    v.option("l2", l2, "penalty of half the weights' squares", Bounds::at_least(0));
  }
};

// A line of a table of linear models.
struct LinearModelEntry {
  std::string_view name;
  std::string_view summary;
  double default_lr;  // of adagrad
  AnyOptions (*options)();
  std::unique_ptr<LinearModel> (*make)(const AnyOptions& options, std::string_view text, std::size_t features);
};
const Table<LinearModelEntry>& two_class_model_table();  // labels are -1 and 1
const Table<LinearModelEntry>& value_model_table();      // labels are any numbers

using LinearModelSpec = Spec<LinearModelEntry>;

}  // namespace sotto
