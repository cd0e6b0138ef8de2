#include "sotto/aggregate/memory/momentum.h"

#include <algorithm>
#include <cmath>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

class Momentum final : public Memory {
 public:
  Momentum(const MomentumOptions& options, const MemoryParts& parts)
      : options_(options),
        limit_(options.clip / std::sqrt(static_cast<double>(parts.ranks))),
        velocity_(parts.buckets),
        held_(parts.buckets) {}

  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    if (options_.mean) return gradient;
    accumulate(gradient);
    return held_.of(gradient);
  }

  void finish(Bucket& mean) override {
    if (!options_.mean) return;
    accumulate(mean);
    const Bucket held = held_.of(mean);
    std::ranges::copy(held.values, mean.values.begin());
    std::ranges::fill(held.values, 0.0F);
  }

  bool remembers() const override { return !options_.mean; }

  void settle(Bucket& prepared, Sent& sent) override {
    sent.add_to(prepared, -1.0F);
    if (!options_.masking) return;
    Bucket velocity = velocity_.of(prepared);
    sent.clear_chosen(velocity);
  }

  void hold(const Bucket& owed) override { kernels::add(owed.values, held_.of(owed).values); }

  void visit_state(StateVisitor& visitor) override {
    velocity_.visit_state(visitor, "memory.momentum.u");
    held_.visit_state(visitor, "memory.momentum.v");
  }

 private:
  void accumulate(const Bucket& gradient) {
    if (options_.clip == 0) return accumulate(gradient, {0, gradient.values.size()}, 1.0F);
    for (const Segment& segment : gradient.layout->segments()) {
      const Range range = segment.range();
      const double norm = std::sqrt(kernels::sum_squares(gradient.values.subspan(range.begin, range.size())));
      accumulate(gradient, range, norm > limit_ ? static_cast<float>(limit_ / norm) : 1.0F);
    }
  }

  void accumulate(const Bucket& gradient, Range range, float scale) {
    const auto part = [&](std::span<float> values) { return values.subspan(range.begin, range.size()); };
    (options_.nesterov ? kernels::add_nesterov : kernels::add_momentum)(
        static_cast<float>(options_.m), scale, part(gradient.values), part(velocity_.of(gradient).values),
        part(held_.of(gradient).values));
  }

  MomentumOptions options_;
  double limit_;  // largest norm of a segment
  BucketVector velocity_, held_;
};

}  // namespace

std::unique_ptr<Memory> make_momentum(const MomentumOptions& options, const MemoryParts& parts) {
  return std::make_unique<Momentum>(options, parts);
}

bool is_momentum_of_mean(const MemorySpec& memory) {
  return memory && memory.entry->name == "momentum" && memory.options.as<MomentumOptions>().mean;
}

MemorySpec dense_memory(const MemorySpec& memory) {
  if (!memory || memory.entry->name != "momentum") return memory;
  MomentumOptions dense = memory.options.as<MomentumOptions>();
  dense.mean = true;
  return memory_table().choose("momentum", dense);
}

}  // namespace sotto
