#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// Callbacks that a worker makes while it computes, on its own thread.
struct BucketCalls {
  // Call it before this step reads the parameters of this bucket, or writes its gradient. It returns when that is
  // allowed. Call it for every bucket before the first one is ready.
  std::function<void(std::size_t bucket)> needed = [](std::size_t) {};
  // Call it when the gradient of this bucket is finished, in order of bucket indices, which is about the order in which
  // backward comes to them. Buckets whose gradient nothing finished come at the end.
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

// Functions that all algorithms share:

// Replaces the gradient of this bucket by the vector that the optimiser offers. Call it once per step and bucket, when
// the gradient is finished.
void offer_in_place(Worker& worker, const BucketPlan& bucket);

// Computes the optimiser's step for the stretch of the parameters that begins at `begin` and has x.size() elements, and
// moves x by that step. x is part of a separate vector, or the stretch itself; no other parameters change. If x equals
// the parameters, it gets the bits that they would get. So weight decay, and a mean of iterates, apply to the model
// even where x is only a share of it (push-sum). Call it once per step and stretch, when the gradient of the stretch is
// finished. `scratch` is overwritten.
void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr, std::vector<float>& scratch);
// The same for a whole vector, bucket by bucket.
void step_all(Worker& worker, std::span<float> x, double lr, std::vector<float>& scratch);

// Calls f with every vector of floats.
template <class F>
class EachVector final : public StateVisitor {
 public:
  explicit EachVector(F f) : f_(std::move(f)) {}
  void visit(std::string_view /*name*/, std::vector<float>& values) override { f_(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

 private:
  F f_;
};

// Whether `mine` is true on any rank. Collective.
bool on_any_rank(bool mine, Communicator& communicator);
// quotient = x / weight.
void divide(std::span<const float> x, double weight, std::span<float> quotient);
// x = the sum of all ranks' x over the sum of their weights, on every rank; weight = 1. Collective. `counts` is false
// on a rank that has no model yet.
void average_by_weight(std::span<float> x, double& weight, Communicator& communicator, bool counts = true);
// The same where all weights are 1.
void average_members(std::span<float> x, Communicator& communicator, bool counts);

}  // namespace sotto
