#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "sotto/algorithm/algorithm.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto::test {

// Helpers that tests of ad_psgd share.
inline AlgorithmOptions options_on(const char* topology, const char* codec = "none", bool overlap = true) {
  AlgorithmOptions options;
  options.topology = test::topology(topology);
  options.phases = test::read_phases(codec);
  options.overlap = overlap;
  return options;
}

// Calls `before` with the number of the step before each gradient, and `after` after it.
class Hooked final : public Worker {
 public:
  Hooked(
      Worker& inner, std::function<void(std::uint64_t)> before, std::function<void()> after = [] {})
      : inner_(inner), before_(std::move(before)), after_(std::move(after)) {}
  std::span<float> parameters() override { return inner_.parameters(); }
  std::span<float> gradient() override { return inner_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return inner_.buckets(); }
  Optimiser& optimiser() override { return inner_.optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    before_(step);
    const double loss = inner_.compute_gradient(step, calls);
    after_();
    return loss;
  }

 private:
  Worker& inner_;
  std::function<void(std::uint64_t)> before_;
  std::function<void()> after_;
};

struct Job {
  const char* topology;
  int ranks;
  const char* codec = "none";
};

}  // namespace sotto::test
