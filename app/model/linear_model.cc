#include "app/model/linear_model.h"

#include <array>
#include <cmath>

namespace sotto {
namespace {

struct LossAndSlope {
  double loss, slope;  // slope: the derivative by the output
};

// log(1 + exp(-m)) of the margin m = label * output, without overflow.
struct Logistic {
  static LossAndSlope at(double output, double label) {
    const double margin = label * output, small = std::exp(-std::abs(margin));
    const double wrong = margin > 0 ? small / (1 + small) : 1 / (1 + small);  // probability of the other class
    return {std::max(0.0, -margin) + std::log1p(small), -label * wrong};
  }
};

struct Hinge {
  static LossAndSlope at(double output, double label) {
    const double short_of = 1 - label * output;
    return short_of <= 0 ? LossAndSlope{0, 0} : LossAndSlope{short_of, -label};  // NaN stays NaN
  }
};

struct Squared {
  static LossAndSlope at(double output, double label) {
    const double error = output - label;
    return {error * error, 2 * error};
  }
};

template <class Loss>
class Linear final : public LinearModel {
 public:
  Linear(const LinearOptions& options, std::string_view text, std::size_t features) : options_(options), name_(text) {
    layout_.append("weight", {static_cast<std::int64_t>(features)});
    layout_.append("bias", {1});
    features_ = features;
    bias_ = layout_.segments()[1].offset;
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
  }

  const std::string& name() const override { return name_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffer_layout() const override { return no_buffers_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<float> buffers() override { return {}; }
  void compute_in(Precision precision) override {
    if (precision != Precision::f32) {
      throw ConfigError(named("amp", precision == Precision::f16 ? "f16" : "bf16") +
                        ": is for networks; a linear model of rows computes with doubles");
    }
  }

  double accumulate_gradient(std::span<const Row> rows, float scale, const SegmentCalls& calls,
                             std::span<float> outputs) override {
    if (calls.needed) calls.needed(0), calls.needed(1);
    const auto count = static_cast<double>(rows.size());
    double sum = 0, slopes = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      outputs[i] = output_of(row);
      const LossAndSlope at = Loss::at(outputs[i], row.label);
      sum += at.loss;
      slopes += at.slope;
      const auto step = static_cast<float>(scale * at.slope / count);
      if (step == 0) continue;
      for (std::size_t k = 0; k < row.columns.size(); ++k) gradient_[row.columns[k]] += step * row.values[k];
    }
    gradient_[bias_] += static_cast<float>(scale * slopes / count);
    add_penalties(scale);
    if (calls.ready) calls.ready(1), calls.ready(0);
    return sum / count;
  }

  double evaluate(std::span<const Row> rows, std::span<float> outputs) override {
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      outputs[i] = output_of(rows[i]);
      sum += Loss::at(outputs[i], rows[i].label).loss;
    }
    return sum;
  }

 private:
  float output_of(const Row& row) const {
    double sum = parameters_[bias_];
    for (std::size_t k = 0; k < row.columns.size(); ++k) {
      sum += static_cast<double>(parameters_[row.columns[k]]) * row.values[k];
    }
    return static_cast<float>(sum);
  }

  void add_penalties(float scale) {
    if (options_.l1 == 0 && options_.l2 == 0) return;
    const float l1 = scale * static_cast<float>(options_.l1), l2 = scale * static_cast<float>(options_.l2);
    for (std::size_t i = 0; i < features_; ++i) {
      const float weight = parameters_[i];
      gradient_[i] += l2 * weight + (weight > 0 ? l1 : weight < 0 ? -l1 : 0);
    }
  }

  LinearOptions options_;
  std::string name_;
  Layout layout_, no_buffers_;
  std::size_t features_, bias_;
  std::vector<float> parameters_, gradient_;
};

template <class Loss>
constexpr LinearModelEntry linear_entry(std::string_view name, std::string_view summary, double lr) {
  return {name, summary, lr, [] { return AnyOptions(LinearOptions{}); },
          [](const AnyOptions& options, std::string_view text, std::size_t features) -> std::unique_ptr<LinearModel> {
            return std::make_unique<Linear<Loss>>(options.as<LinearOptions>(), text, features);
          }};
}

constexpr std::array two_class_models{
    linear_entry<Logistic>("logreg", "logistic regression: loss log(1 + exp(-label * output))", 0.1),
    linear_entry<Hinge>("svm", "support vector machine: loss max(0, 1 - label * output)", 0.1),
};
constexpr std::array value_models{
    linear_entry<Squared>("linreg", "linear regression: loss (output - label)^2", 1),
};
constexpr Table<LinearModelEntry> two_class_table("model", two_class_models);
constexpr Table<LinearModelEntry> value_table("model", value_models);

}  // namespace

const Table<LinearModelEntry>& two_class_model_table() { return two_class_table; }
const Table<LinearModelEntry>& value_model_table() { return value_table; }

}  // namespace sotto
