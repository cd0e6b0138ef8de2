#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sotto/core/state.h"
#include "sotto/core/table.h"

namespace sotto {

// Turns averaged vectors into a step of the parameters. Works on flat vectors; padding stays zero.
class Optimiser {
 public:
  virtual ~Optimiser() = default;
  // What is offered in so many first steps is to be exchanged without loss.
  virtual std::uint64_t dense_steps() const { return 0; }
  // Before anything else of a step. Steps are counted from 0, resumed ones included.
  virtual void begin_step(std::uint64_t /*step*/) {}
  // What this rank offers to be exchanged, out of its gradient: the gradient itself, unless the method exchanges
  // something else (1-bit Adam its momentum). Called once a step and bucket, before the exchange; `begin` is the
  // bucket's place in the flat vector. It may be made in the gradient's place.
  virtual std::span<float> outgoing(std::span<float> gradient, std::size_t /*begin*/) { return gradient; }
  // parameters -= lr * direction(mean), for a stretch of the flat vectors that starts at `begin`.
  virtual void apply(std::span<float> parameters, std::span<const float> mean, std::size_t begin, double lr) = 0;
  // The parameters to evaluate, in place of those that are trained; empty: those. Valid until the next step.
  virtual std::span<const float> to_evaluate() const { return {}; }
  virtual void visit_state(StateVisitor& visitor) = 0;
  // What of that are running means of gradients or of their squares, which an algorithm may average over ranks, or set
  // to zero.
  virtual void visit_buffers(StateVisitor& visitor) { visit_state(visitor); }
  // Whether steps may go on after they were set to zero; not where they are corrected by the number of steps.
  virtual bool may_forget() const { return true; }
};

// A line of the table of optimisers.
struct OptimiserEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  double default_lr;        // 0: the model's own
  AnyOptions (*options)();  // their defaults
  std::unique_ptr<Optimiser> (*make)(const AnyOptions& options, std::size_t parameters);
};
const Table<OptimiserEntry>& optimiser_table();

using OptimiserSpec = Spec<OptimiserEntry>;

// For so many parameters.
std::unique_ptr<Optimiser> make_optimiser(const OptimiserSpec& spec, std::size_t parameters);

}  // namespace sotto
