#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "sotto/core/timer.h"
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
  // Takes steps whose means it keeps, in order, but begins none after `until`. Returns whether none is left. REQUIRES
  // that the replica has the state with which the first one began.
  bool catch_up(const std::function<double(std::uint64_t step)>& lr, Clock::time_point until);

 private:
  // If most of a mean is zero (+0, to the bit), other values alone are kept, with their places, and its first value.
  struct Mean {
    std::uint64_t step = 0;
    std::vector<std::uint32_t> places{};  // empty: all values are kept
    std::vector<float> values{};
    std::size_t bytes() const { return places.size() * sizeof(std::uint32_t) + values.size() * sizeof(float); }
  };
  // Keeps what an optimiser would apply.
  class Means final : public Optimiser {
   public:
    void begin_step(std::uint64_t step) override { kept.push_back({step}); }
    void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
    void visit_state(StateVisitor& /*visitor*/) override {}

    std::deque<Mean> kept;
    std::size_t bytes = 0;
  };

  Replica& replica_;
  Means means_;
};

}  // namespace sotto
