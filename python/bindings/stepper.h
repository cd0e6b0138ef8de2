#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/bindings/flat_model.h"
#include "python/bindings/gradient_averager.h"
#include "python/bindings/state_values.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto::python {

struct StepperOptions {
  AlgorithmSpec algorithm;
  AlgorithmOptions own;
  std::size_t bucket_bytes = std::size_t{4} << 20;
};

// Drives an Algorithm from the training loop of a user's model and optimiser. A step of the algorithm runs on a thread
// of its own. Where it needs the gradient it waits until the user's optimiser has taken its step. Then the algorithm's
// vector moves as far as the model's parameters moved, to the last bit if both were the same. So the algorithms are
// those of `sotto train`, with any optimiser.
//
// If ranks go at their own speed, the algorithm's vector changes at any time. The loop's parameters are brought up to
// date when a step begins, and the vector then moves as far as the loop moves them from there.
//
// Every change of the parameters since the last step counts as this rank's step. The call that finds an error of the
// algorithm throws it, and so does every later step; other ranks fail through the closed connections.
class Stepper {
 public:
  // Collective. The parameters must be the same on all ranks when the first step begins. ConfigError for options that
  // the algorithm cannot have, and for ranks that differ in anything.
  Stepper(FlatModel model, StepperOptions options, std::shared_ptr<Communicator> communicator);
  ~Stepper();

  // Called before the loop's optimiser takes its step; if starts_early(), also before the gradient is computed, so that
  // messages travel meanwhile. Only the first of several calls counts. `lr` is the optimiser's.
  void begin(double lr);
  // Called after the optimiser's step: the parameters become the algorithm's result. ConfigError if no step has begun.
  void end();
  bool starts_early() const;
  bool failed() const;  // for good

  // The functions below are called between steps (ConfigError otherwise). If ranks go at their own speed, each is a
  // meeting of all of them.
  // Collective: all ranks take the exact mean model, which includes messages on their way, and go on from there.
  void take_average();
  // Collective: the parameters become the mean over all ranks until show_own() restores this rank's. Until then there
  // can be no step, take_average(), load() or second mean.
  void show_mean();
  void show_own();
  // Collective: the mean of a tensor of floats over all ranks, on the CPU.
  at::Tensor mean(const at::Tensor& tensor);

  AveragerStats stats() const;
  std::string methods() const;
  // All that a state must match to be loaded.
  std::string identity() const;
  int rank() const;
  int ranks() const;
  // The step of a state: of each rank or, if ranks go at their own speed, of all together.
  std::uint64_t step() const;
  // The steps of each rank. If ranks go at their own speed these are the steps that this rank has heard of; after
  // take_average(), mean() and state() they are exact.
  std::vector<std::uint64_t> steps() const;

  StateValues state();
  // Collective: see gather() in terms.h.
  std::vector<std::string> gather(const std::string& own);
  // Collective: goes on before this step, from a state() taken there, with its parameters. A FileError on this rank
  // leaves everything as it was, and is a CommError on the others; so are states of different steps.
  void load(std::uint64_t step, const StateValues& values);
  // Called instead of load() on a rank that has no state to load.
  void refuse_load();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto::python
