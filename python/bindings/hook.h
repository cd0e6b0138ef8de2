#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/gradient_averager.h"
#include "python/bindings/state_values.h"

namespace c10d {
class Reducer;
}

namespace sotto::python {

struct HookOptions {
  AveragerOptions averager;
  std::uint64_t check_replicas = 0;  // every so many steps; 0: never
  // What the loss of a backward was multiplied by, asked at its first gradient, on its thread; null: nothing. Gradients
  // are divided by it when they come and means multiplied when they go, so that memories hold what they would without.
  std::function<double()> loss_scale;
  std::function<std::string()> advice;  // behind a NumericError: what the user may do; null: nothing is said
};

// The averaging of one module's gradients: of one in DistributedDataParallel, or in a wrapper of our own. DDP hands
// over its buckets during backward; one thread of ours copies them into an GradientAverager's vectors, exchanges what
// is complete, and gives each bucket back when the means of all its parameters are there. So backward, copying and the
// network overlap, and what DDP does with its buckets (it rebuilds them after the first step) changes nothing but the
// time.
//
// An error of that thread, or of what is done for it within backward(), ends the step on this rank as an exception of
// backward(), and on the others through the closed connections; every later backward() fails with it at once.
class Hook {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;
  // ConfigError for those whose gradients cannot be averaged; before anybody is connected.
  static void check(const Parameters& parameters);
  // Collective, for all ranks of the communicator. `parameters`: names and tensors, in the order of registration.
  Hook(Parameters parameters, HookOptions options, std::shared_ptr<Communicator> communicator);
  ~Hook();

  // Without DDP, in every backward once for each parameter, in any order: its gradient, which stays as it is until
  // wait(), and is the mean after it.
  void offer(std::size_t parameter, const at::Tensor& gradient);
  void wait();
  // In place of a gradient that cannot be taken: ends the step on all ranks.
  void refuse(const std::string& why);

  AveragerStats stats() const;
  std::string methods() const;
  std::string identity() const;
  int rank() const;
  int ranks() const;

  // Between steps.
  StateValues state() const;
  std::uint64_t step() const;
  // Collective: as gather() of terms.h.
  std::vector<std::string> gather(const std::string& own) const;
  // As GradientAverager has them. The next step finds out whether all ranks did the same.
  void load(std::uint64_t step, const StateValues& values);
  void spread(std::uint64_t step, std::span<const StateValues> states);

  // Registers the hook at DDP, which keeps `hook` alive. std::exception when DDP has another one already.
  static void attach(const std::shared_ptr<Hook>& hook, c10d::Reducer& reducer);

 private:
  class Impl;
  class CommHook;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto::python
