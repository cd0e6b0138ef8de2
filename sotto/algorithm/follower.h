#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/timer.h"
#include "sotto/optim/kept_steps.h"

namespace sotto {

// A worker whose model is still on its way (Algorithm::weigh): its gradient is zero, and it keeps the steps for which
// the others have a model.
class Follower final : public Worker {
 public:
  Worker& of(Worker& worker) {
    worker_ = &worker;
    return *this;
  }

  std::span<float> parameters() override { return worker_->parameters(); }
  std::span<float> gradient() override { return worker_->gradient(); }
  std::span<const BucketPlan> buckets() const override { return worker_->buckets(); }
  Optimiser& optimiser() override { return steps_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) override {
    for (std::size_t b = 0; b < buckets().size(); ++b) calls.needed(b);
    std::ranges::fill(gradient(), 0.0F);
    for (std::size_t b = 0; b < buckets().size(); ++b) calls.ready(b);
    return 0;
  }

  std::size_t kept_bytes() const { return steps_.bytes(); }
  bool catch_up(Worker& worker, Clock::time_point until) {
    return steps_.replay(worker.optimiser(), worker.parameters(), until);
  }

 private:
  Worker* worker_ = nullptr;
  KeptSteps steps_;
};

}  // namespace sotto
