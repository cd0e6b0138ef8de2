#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sotto/optim/optimiser.h"

namespace sotto {

// A mean of all iterates t = 0, 1, ..; at most one of the two kinds is chosen:
//   mean += share(t) * (p - mean),  share(0) = 1
struct Averaging {
  // Weights (t + tau)^2, for which the convergence theorem of Mem-SGD holds (Stich, Cordonnier, Jaggi, NeurIPS 2018):
  //   share(t) = 6 (t+tau)^2 / ((1+t) (6 tau^2 + t + 6 tau t + 2 t^2))
  double tau = 0;
  // An exponential moving average, share(t) = 1 - decay: torch.optim.swa_utils.AveragedModel with get_ema_avg_fn.
  double decay = 0;

  explicit operator bool() const { return tau > 0 || decay > 0; }
  double share(std::uint64_t step) const;
  std::string text() const;  // for checkpoints
};

// Wraps an optimiser and keeps a mean of iterates, which is evaluated in place of the last iterate. Training itself
// does not change.
class Averaged final : public Wrapped {
 public:
  Averaged(std::unique_ptr<Optimiser> inner, const Averaging& averaging, std::size_t parameters);

  void begin_step(std::uint64_t step) override;
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
  std::span<const float> to_evaluate() const override { return mean_; }
  void visit_state(StateVisitor& visitor) override;

 private:
  Averaging averaging_;
  float share_ = 1;
  std::vector<float> mean_;
};

}  // namespace sotto
