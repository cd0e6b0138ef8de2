#include "sotto/aggregate/memory/residual.h"

#include "sotto/aggregate/memory/demo.h"
#include "sotto/aggregate/memory/ef.h"

namespace sotto {

std::unique_ptr<Memory> make_error_feedback(const NoOptions& /*options*/, const MemoryParts& parts) {
  return std::make_unique<Residual>(parts, "memory.ef");
}

std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts) {
  return std::make_unique<Residual>(parts, "memory.demo", options.decay);
}

}  // namespace sotto
