#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/state_values.h"

namespace c10d {
class Reducer;
}

namespace sotto::python {

struct HookOptions {
  AveragerOptions averager;
  std::uint64_t check_replicas = 0;  // compares replicas every `check_replicas` steps; 0: never
  // Returns the factor by which the loss was multiplied; null: 1. Called at the first gradient of a backward, on its
  // thread. Gradients are divided by it when they arrive and means multiplied by it when they leave, so that memories
  // hold the same as without a loss scale.
  std::function<double()> loss_scale;
  std::function<std::string()> advice;  // what the user may do, added to a NumericError; null: nothing
  // Called at the first gradient of a backward, on its thread: why this one must not continue, or nothing; null:
  // nothing.
  std::function<std::string()> problem;
};

// Averages the gradients of one module in DistributedDataParallel or in a wrapper of our own. DDP hands over its
// buckets during backward. One thread of ours copies them into the vectors of a GradientAverager, exchanges complete
// buckets, and returns each of DDP's buckets when the means of all its parameters are there. Thus backward, copying and
// the network overlap. DDP rebuilds its buckets after the first step; that changes only the time.
//
// An error on that thread, or in our part of backward(), ends the step: on this rank as an exception of backward(), on
// the others through the closed connections. Every later backward() then fails with it at once.
class Hook {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;
  // ConfigError for parameters whose gradients cannot be averaged; called before ranks are connected.
  static void check(const Parameters& parameters);
  // Collective, for all ranks of the communicator. `parameters`: names and tensors, in the order of registration.
  Hook(Parameters parameters, HookOptions options, std::shared_ptr<Communicator> communicator);
  ~Hook();

  // For use without DDP: called in every backward once for each parameter, in any order, with its gradient. wait()
  // replaces the gradient by the mean.
  void offer(std::size_t parameter, const at::Tensor& gradient);
  void wait();
  // Called instead if a gradient cannot be averaged: ends the step on all ranks.
  void refuse(const std::string& why);

  AveragerStats stats() const;
  std::string methods() const;
  std::string identity() const;
  int rank() const;
  int ranks() const;

  // All functions below are called between steps.
  StateValues state() const;
  std::uint64_t step() const;
  // Collective: see gather() in terms.h.
  std::vector<std::string> gather(const std::string& own) const;
  // See GradientAverager. The next step finds out whether all ranks loaded the same.
  void load(std::uint64_t step, const StateValues& values);
  std::vector<std::string> shared() const;
  void spread(std::uint64_t step, std::span<const FormerState> states);

  // Registers the hook with DDP, which keeps `hook` alive. std::exception if DDP already has one.
  static void attach(const std::shared_ptr<Hook>& hook, c10d::Reducer& reducer);

 private:
  class Impl;
  class CommHook;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto::python
