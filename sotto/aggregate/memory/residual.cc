#include "sotto/aggregate/memory/residual.h"

#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// A memory of one vector e. It offers p = decay * e + g, and keeps e = p - sent, in the same place.
class Residual : public Memory {
 public:
  Residual(const MemoryParts& parts, std::string_view name, double decay = 1)
      : held_(parts.buckets), name_(name), decay_(static_cast<float>(decay)) {}

  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    const Bucket held = held_.of(gradient);
    kernels::xpay(gradient.values, decay_, held.values);
    return held;
  }

  void settle(Bucket& prepared, Sent& sent) override { sent.add_to(prepared, -1.0F); }
  void hold(const Bucket& owed) override { kernels::add(owed.values, held_.of(owed).values); }
  void visit_state(StateVisitor& visitor) override { held_.visit_state(visitor, name_); }

 protected:
  BucketVector held_;

 private:
  std::string_view name_;  // its name in checkpoints
  float decay_;
};

// Keeps the vector that it offers, whatever part is sent.
class Velocity final : public Residual {
 public:
  using Residual::Residual;
  void settle(Bucket& /*prepared*/, Sent& /*sent*/) override {}
  void hold(const Bucket& /*owed*/) override {}
  bool remembers() const override { return false; }
};

class MemSgd final : public Residual {
 public:
  explicit MemSgd(const MemoryParts& parts) : Residual(parts, "memory.memsgd"), rates_(parts.buckets.size()) {}

  Bucket prepare(const Bucket& gradient, const StepContext& step, std::span<float> owed) override {
    const auto rate = static_cast<float>(step.rate);
    if (!(rate > 0)) {
      throw ConfigError("memsgd holds back gradients times the learning rate, which is " + format_double(step.rate) +
                        " at step " + std::to_string(step.number) +
                        ": use a schedule of rates above 0, or `ef`, which needs no rate");
    }
    const Bucket held = held_.of(gradient);
    float& before = rates_.at(gradient.index);
    const float change = before > 0 ? before / rate : 1.0F;
    kernels::xpay(gradient.values, change, held.values);
    kernels::scale(change, owed);
    before = rate;
    return held;
  }
  void visit_state(StateVisitor& visitor) override {
    Residual::visit_state(visitor);
    visitor.visit("memory.memsgd.rates", rates_);
  }

 private:
  std::vector<float> rates_;  // each bucket's residual is in units of this rate; 0: there is none yet
};

}  // namespace

std::unique_ptr<Memory> make_error_feedback(const NoOptions& /*options*/, const MemoryParts& parts) {
  return std::make_unique<Residual>(parts, "memory.ef");
}

std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts) {
  return std::make_unique<Residual>(parts, "memory.demo", options.decay);
}

std::unique_ptr<Memory> make_velocity(const VelocityOptions& options, const MemoryParts& parts) {
  return std::make_unique<Velocity>(parts, "memory.velocity", options.m);
}

std::unique_ptr<Memory> make_memsgd(const NoOptions& /*options*/, const MemoryParts& parts) {
  return std::make_unique<MemSgd>(parts);
}

}  // namespace sotto
