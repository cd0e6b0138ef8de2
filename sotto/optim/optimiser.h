#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/table.h"

namespace sotto {

// Turns averaged vectors into a step of the parameters. Works on flat vectors; padding stays zero.
class Optimiser {
 public:
  virtual ~Optimiser() = default;
  // The number of first steps in which offer() must be exchanged without loss.
  virtual std::uint64_t dense_steps() const { return 0; }
  // Called first in every step: before apply(), or before offer() if offer() makes the buffers. `step` counts from 0
  // and includes the steps before a resume.
  virtual void begin_step(std::uint64_t /*step*/) {}
  // From now on a step consists of 1/share updates, each with that share of the learning rate: asynchronous servers
  // make one update with each worker's gradient. Called before the first step, on all ranks. Adagrad uses it, because
  // its sum of squares would grow faster otherwise. SGD and Adam use it, because each worker then makes the running
  // means, in offer().
  virtual void take_shares(double /*share*/) {}
  // Whether this rank offers its gradient in all steps.
  virtual bool offers_gradient() const { return true; }
  // The vector that this rank offers for the exchange: its gradient, or something made of it (1-bit Adam: its
  // momentum), which may overwrite the gradient. Called once per step and bucket, before the exchange; `begin` is the
  // offset of the bucket in the flat vector.
  virtual std::span<float> offer(std::span<float> gradient, std::size_t /*begin*/) { return gradient; }
  // Whether offer() makes the buffers (visit_buffers()) from this rank's own gradients. Otherwise apply() makes them
  // from means; where servers apply the means, each server has the buffers of its share of the parameters.
  virtual bool offer_makes_buffers() const { return false; }
  // parameters -= lr * direction(mean). Both spans are the stretch of the flat vectors that starts at `begin`; `mean`
  // is the result of the exchange, and may be overwritten.
  virtual void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) = 0;
  // Whether apply() works on whole tensors, so that a stretch must begin and end at their boundaries.
  virtual bool needs_whole_tensors() const { return false; }
  // The parameters to evaluate, such as averaged iterates; empty: the trained parameters. Valid until the next step.
  virtual std::span<const float> to_evaluate() const { return {}; }
  virtual void visit_state(StateVisitor& visitor) = 0;
  // Visits the part of the state that consists of running means of gradients or of their squares. An algorithm may
  // average these over ranks or set them to zero. Averaged iterates are state, but no such mean.
  virtual void visit_buffers(StateVisitor& visitor) { visit_state(visitor); }
  // Whether the buffers may be set to zero during training. False where a bias correction depends on the step number,
  // and for sums of squares.
  virtual bool may_reset_buffers() const { return true; }
};

// A line of the table of optimisers.
struct OptimiserEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  double default_lr;        // 0: the default rate of the model
  AnyOptions (*options)();  // the default options
  std::unique_ptr<Optimiser> (*make)(const AnyOptions& options, const Layout& layout);
};
const Table<OptimiserEntry>& optimiser_table();

using OptimiserSpec = Spec<OptimiserEntry>;

// `layout` describes the flat parameter vector.
std::unique_ptr<Optimiser> make_optimiser(const OptimiserSpec& spec, const Layout& layout);

// An optimiser that passes everything on to another one. Optimisers that add something derive from it.
class Wrapped : public Optimiser {
 public:
  explicit Wrapped(std::unique_ptr<Optimiser> inner) : inner_(std::move(inner)) {}

  std::uint64_t dense_steps() const override { return inner_->dense_steps(); }
  void begin_step(std::uint64_t step) override { inner_->begin_step(step); }
  void take_shares(double share) override { inner_->take_shares(share); }
  bool offers_gradient() const override { return inner_->offers_gradient(); }
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    return inner_->offer(gradient, begin);
  }
  bool offer_makes_buffers() const override { return inner_->offer_makes_buffers(); }
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    inner_->apply(parameters, mean, begin, lr);
  }
  bool needs_whole_tensors() const override { return inner_->needs_whole_tensors(); }
  std::span<const float> to_evaluate() const override { return inner_->to_evaluate(); }
  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }
  void visit_buffers(StateVisitor& visitor) override { inner_->visit_buffers(visitor); }
  bool may_reset_buffers() const override { return inner_->may_reset_buffers(); }

 private:
  std::unique_ptr<Optimiser> inner_;
};

// std::logic_error unless both spans have the same length and, starting at `begin`, end within `all` parameters.
inline void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                            std::size_t all) {
  if (parameters.size() == mean.size() && begin <= all && parameters.size() <= all - begin) return;
  throw std::logic_error("Optimiser: a stretch that is not part of the parameters");
}

}  // namespace sotto
