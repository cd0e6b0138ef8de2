#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sotto/train/replica.h"

namespace sotto {

// A worker that does not have the others' model yet, while that is on its way to it. It takes part in their exchanges
// with a gradient of zero. So it gets each mean gradient as they do, keeps it, and takes the step once it has the model
// with which the first of these steps began. REQUIRES an algorithm that gives the optimiser the whole mean
// (AlgorithmEntry::whole_mean), and recipes for which a rank that sends zeros does not change the sum.
class Follower final : public Worker {
 public:
  explicit Follower(Replica& replica) : replica_(replica) {}

  std::span<float> parameters() override { return replica_.parameters(); }
  std::span<float> gradient() override { return replica_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return replica_.buckets(); }
  Optimiser& optimiser() override { return means_; }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override;  // zeros, with a loss of 0

  std::size_t kept_bytes() const { return means_.bytes; }
  // Takes the steps whose means it keeps. REQUIRES that the replica has the state with which the first one began.
  void catch_up(const std::function<double(std::uint64_t step)>& lr);

 private:
  // A mean, of which zeros are left out if they are most of it.
  struct Mean {
    std::uint64_t step = 0;
    std::vector<std::uint32_t> places{};  // of the values; empty: the values are all there
    std::vector<float> values{};
  };
  // Keeps what an optimiser would apply.
  class Means final : public Optimiser {
   public:
    void begin_step(std::uint64_t step) override { kept.push_back({step}); }
    void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
    void visit_state(StateVisitor& /*visitor*/) override {}

    std::vector<Mean> kept;
    std::size_t bytes = 0;
  };

  Replica& replica_;
  Means means_;
};

}  // namespace sotto
