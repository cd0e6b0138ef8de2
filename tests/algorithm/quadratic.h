#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/optim/sgd.h"

namespace sotto::test {

// f_r(x) = |x - a_r|^2 / 2 with a_r = r + 1 in every coordinate, in three segments.
class Quadratic final : public Worker {
 public:
  explicit Quadratic(int rank) : target_(static_cast<float>(rank + 1)) {
    layout_.append("first", {20});
    layout_.append("second", {3, 5});
    layout_.append("third", {7});
    buckets_ = plan_buckets(layout_, 64);
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
    optimiser_ = make_sgd({0.5, false, 0}, layout_.size());
  }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t /*step*/, const std::function<void(std::size_t)>& ready) override {
    double loss = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (std::size_t s = buckets_[b].first; s < buckets_[b].last; ++s) {
        const Segment& segment = layout_.segments()[s];
        for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
          gradient_[i] = parameters_[i] - target_;
          loss += 0.5 * static_cast<double>(gradient_[i]) * static_cast<double>(gradient_[i]);
        }
      }
      if (fails) throw NumericError("the loss is not finite");
      ready(b);
    }
    return loss;
  }
  bool fails = false;

 private:
  float target_;
  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<Optimiser> optimiser_;
};

}  // namespace sotto::test
