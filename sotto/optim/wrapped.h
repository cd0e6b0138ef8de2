#pragma once

#include <memory>
#include <utility>

#include "sotto/optim/optimiser.h"

namespace sotto {

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

}  // namespace sotto
