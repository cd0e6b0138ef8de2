#pragma once

#include "sotto/aggregate/memory/bucket_vector.h"
#include "sotto/aggregate/memory/memory.h"
#include "sotto/kernels/vector.h"

namespace sotto {

// A memory of one vector e. It offers p = decay * e + g, and keeps e = p - sent, in the same place.
class Residual : public Memory {
 public:
  Residual(const MemoryParts& parts, std::string_view name, double decay = 1)
      : held_(parts.buckets), name_(name), decay_(static_cast<float>(decay)) {}

  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    const Bucket held = held_.beside(gradient);
    kernels::xpay(gradient.values, decay_, held.values);
    return held;
  }

  void settle(Bucket& prepared, Sent& sent) override { sent.add_to(prepared, -1.0F); }
  void hold(const Bucket& owed) override { kernels::add(owed.values, held_.beside(owed).values); }
  void visit_state(StateVisitor& visitor) override { held_.visit_state(visitor, name_); }

 protected:
  BucketVector held_;

 private:
  std::string_view name_;  // its name in checkpoints
  float decay_;
};

}  // namespace sotto
