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

// Drives an Algorithm from the loop of somebody else's model and optimiser. A step of the algorithm runs on a thread of
// its own, and waits, where it has the gradient computed, until that optimiser has taken its step. What the algorithm
// then applies is where the step led: its own vector moves as far as the model's parameters did, to the last bit where
// both were the same. So the algorithms are those of `sotto train`, whatever the optimiser.
//
// Where ranks go at their own speed the algorithm's vector changes at any time. The loop's parameters are brought up to
// date when a step begins, and the vector then goes as far as the loop took them from there.
//
// All that changed the parameters since the last step counts as this rank's step. An error of the algorithm is one of
// the call during which it is found, and of every later step; other ranks fail through the closed connections.
class Stepper {
 public:
  // Collective. Parameters that are the same on all ranks when the first step begins. ConfigError when the algorithm
  // cannot be had with these options, and when the ranks differ in anything.
  Stepper(FlatModel model, StepperOptions options, std::shared_ptr<Communicator> communicator);
  ~Stepper();

  // Before the loop's optimiser takes its step, and where starts_early() before the gradient is computed, too; what is
  // on its way then travels meanwhile. Of several calls the first counts. `lr` is the optimiser's.
  void begin(double lr);
  // The optimiser has taken its step: the parameters become what the algorithm makes of it. ConfigError where none has
  // begun.
  void end();
  bool starts_early() const;
  bool failed() const;  // for good

  // All below: between steps, ConfigError otherwise; where ranks go at their own speed, a meeting of all of them.
  // Collective: all ranks get the exact mean model, with what is on its way, and go on from there.
  void take_average();
  // Collective: the parameters become the mean of those of all ranks, until show_own() puts this rank's back: no step,
  // take_average(), load() or second mean before.
  void show_mean();
  void show_own();
  // Collective: the mean of a tensor of floats over all ranks, on the CPU.
  at::Tensor mean(const at::Tensor& tensor);

  AveragerStats stats() const;
  std::string methods() const;
  // Everything that the state belongs to.
  std::string identity() const;
  int rank() const;
  int ranks() const;
  // That a state is of: of each rank, or, where ranks go at their own speed, of all together.
  std::uint64_t step() const;
  // Of each rank, where they go at their own speed as far as this one knows; behind take_average(), mean() and state():
  // all.
  std::vector<std::uint64_t> steps() const;

  StateValues state();
  // Collective: as gather() of terms.h.
  std::vector<std::string> gather(const std::string& own);
  // Collective: goes on from state() before this step, with its parameters. FileError, on this rank, leaves everything
  // as it was; then, and when they load states of different steps, CommError on the others.
  void load(std::uint64_t step, const StateValues& values);
  // In its place, on a rank that has no state to load.
  void refuse_load();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto::python
