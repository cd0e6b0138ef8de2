#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/optim/optimiser.h"
#include "tests/support/specs.h"

namespace sotto::test {

// f_r(x) = c_r |x - a_r|^2 / 2 with a_r = r + 1 in every coordinate, in three segments, each a bucket.
class Quadratic : public Worker {
 public:
  explicit Quadratic(int rank, const std::string& optimiser = "sgd(momentum=0.5)", float curvature = 1)
      : target_(static_cast<float>(rank + 1)), curvature_(curvature) {
    layout_.append("first", {20});
    layout_.append("second", {3, 5});
    layout_.append("third", {7});
    buckets_ = plan_buckets(layout_, 64);
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
    optimiser_ = make_optimiser(test::optimiser(optimiser), layout_);
  }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) override {
    double loss = 0;
    for (std::size_t b = buckets_.size(); b-- > 0;) calls.needed(b);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (std::size_t s = buckets_[b].first; s < buckets_[b].last; ++s) {
        const Segment& segment = layout_.segments()[s];
        for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
          const float away = parameters_[i] - target_;
          gradient_[i] = curvature_ * away;
          loss += 0.5 * static_cast<double>(gradient_[i]) * static_cast<double>(away);
        }
      }
      if (fails && b == fails_at) throw NumericError("the loss is not finite");
      calls.ready(b);
    }
    return loss;
  }
  bool fails = false;
  std::size_t fails_at = 0;  // where `fails`: the bucket that never becomes ready

 private:
  float target_, curvature_;
  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<Optimiser> optimiser_;
};

// The bytes of the messages of these buckets. The codec must be one whose messages all have the largest size.
inline std::uint64_t message_bytes(const std::string& codec, std::span<const BucketPlan> buckets) {
  const auto made = make_codec(read_recipe(codec).stages);
  std::uint64_t sum = 0;
  for (const BucketPlan& bucket : buckets) sum += made->max_bytes(bucket.layout, {0, bucket.layout.size()});
  return sum;
}

}  // namespace sotto::test
