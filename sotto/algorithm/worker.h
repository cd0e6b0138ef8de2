#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// Callbacks that a worker makes while it computes, on its own thread.
struct BucketCalls {
  // Call it before the parameters of this bucket are read, or its gradient written, in this step: it returns when they
  // may be. Call it for every bucket before the first one is ready.
  std::function<void(std::size_t bucket)> needed = [](std::size_t) {};
  // Call it when the gradient of this bucket is finished, in order of bucket indices, which is about the order in which
  // backward comes to them. Buckets that nothing finished come at the end.
  std::function<void(std::size_t bucket)> ready = [](std::size_t) {};
  // A worker whose gradient can overflow calls this once, after backward and before the first bucket is ready. It says
  // whether the gradient overflowed, and learns whether the step is void. By default each rank decides for itself;
  // ranks that take one step together agree. The gradient of a void step is zero, and the worker's optimiser leaves the
  // step out.
  std::function<bool(bool overflows)> is_void = [](bool overflows) { return overflows; };
};

// What an algorithm drives: one rank's model, data and optimiser as flat vectors.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<const BucketPlan> buckets() const = 0;
  virtual Optimiser& optimiser() = 0;
  // gradient() = gradient of this rank's mean loss over its batch of this step; returns the loss.
  virtual double compute_gradient(std::uint64_t step, const BucketCalls& calls) = 0;
};

}  // namespace sotto
