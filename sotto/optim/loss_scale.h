#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "sotto/core/options.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

struct LossScaleOptions {
  double scale = 65536;
  std::int64_t every = 2000;
  void visit(OptionVisitor& v) {
    v.option("scale", scale, "what the loss is multiplied by at first", Bounds{1, 1e30});
    v.option("every", every, "steps in a row without an overflow after which the scale is doubled", Bounds{1, 1e9});
  }
};

// The factor that multiplies a loss before backward, so that small gradients do not vanish in float16. A step whose
// gradient overflows is void: it changes nothing, and the scale is halved. Equals torch.amp.GradScaler with its default
// factors (Micikevicius et al., Mixed precision training, ICLR 2018).
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options);

  float value() const { return value_; }              // of the next step
  bool is_spent() const { return value_ < 1; }        // gradients would overflow without a scale, too
  bool is_void() const { return void_; }              // of the last step
  std::uint64_t taken() const { return taken_; }      // steps that were not void
  std::uint64_t skipped() const { return skipped_; }  // void steps

  // Divides a gradient by the scale; returns whether it is finite.
  bool unscale(std::span<float> gradient) const;
  void end_step(bool is_void);
  void visit_state(StateVisitor& visitor);

 private:
  float value_;
  std::uint64_t every_;
  std::uint64_t in_a_row_ = 0, taken_ = 0, skipped_ = 0;
  bool void_ = false;
};

// Wraps an optimiser and hides void steps from it, so it does not count them.
class Skipping final : public Wrapped {
 public:
  // The scale must outlive this.
  Skipping(std::unique_ptr<Optimiser> inner, LossScale& scale) : Wrapped(std::move(inner)), scale_(scale) {}

  void begin_step(std::uint64_t /*step*/) override { Wrapped::begin_step(scale_.taken()); }
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override;
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  LossScale& scale_;
};

}  // namespace sotto
