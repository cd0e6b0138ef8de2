#pragma once

#include <memory>
#include <vector>

#include "sotto/optim/optimiser.h"

namespace sotto {

// Wraps an optimiser and keeps a weighted mean of all iterates, which is evaluated in place of the last iterate.
// The convergence theorem of Mem-SGD holds for this mean (Stich, Cordonnier, Jaggi, NeurIPS 2018). Iterate
// t = 0, 1, .. has the weight (t + tau)^2, so
//   mean += rho * (p - mean),  rho(t) = 6 (t+tau)^2 / ((1+t) (6 tau^2 + t + 6 tau t + 2 t^2))
// Training itself does not change.
class Averaged final : public Optimiser {
 public:
  Averaged(std::unique_ptr<Optimiser> inner, double tau, std::size_t parameters);

  std::uint64_t dense_steps() const override { return inner_->dense_steps(); }
  void begin_step(std::uint64_t step) override;
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    return inner_->offer(gradient, begin);
  }
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
  bool needs_whole_tensors() const override { return inner_->needs_whole_tensors(); }
  std::span<const float> to_evaluate() const override { return mean_; }
  void visit_state(StateVisitor& visitor) override;
  void visit_buffers(StateVisitor& visitor) override { inner_->visit_buffers(visitor); }
  bool may_reset_buffers() const override { return inner_->may_reset_buffers(); }

 private:
  std::unique_ptr<Optimiser> inner_;
  double tau_;
  double rho_ = 1;
  std::vector<float> mean_;
};

}  // namespace sotto
