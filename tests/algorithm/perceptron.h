#pragma once

#include <memory>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/optim/optimiser.h"

namespace sotto::test {

// A worker with one hidden layer that learns to tell ten clouds of points in 64 dimensions apart. Each rank draws its
// own batch in every step. It is small, and has matrices and biases in several buckets.
class Perceptron final : public Worker {
 public:
  Perceptron(int rank, const std::string& optimiser, std::size_t bucket_bytes = 2048);
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override;
  const Layout& layout() const { return layout_; }

 private:
  std::span<float> of(std::vector<float>& all, std::size_t segment) {
    return std::span(all).subspan(layout_.segments()[segment].offset, layout_.segments()[segment].numel());
  }
  double learn(std::size_t label, std::span<const float> input, float share);

  int rank_;
  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> parameters_, gradient_, centres_;
  std::unique_ptr<Optimiser> optimiser_;
};

}  // namespace sotto::test
