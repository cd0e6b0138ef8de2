#include "sotto/aggregate/memory/residual.h"

#include "sotto/aggregate/memory/demo.h"
#include "sotto/aggregate/memory/ef.h"
#include "sotto/aggregate/memory/velocity.h"

namespace sotto {
namespace {

// Keeps what it offers, whatever is sent of it.
class Velocity final : public Residual {
 public:
  using Residual::Residual;
  void settle(Bucket& /*prepared*/, Sent& /*sent*/) override {}
  void hold(const Bucket& /*owed*/) override {}
  bool remembers() const override { return false; }
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

}  // namespace sotto
