#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

// Error feedback: p = e + g is offered, and e = p - sent stays. The learning rate is outside: e holds gradients, so a
// change of the rate applies to what was held back as well.
std::unique_ptr<Memory> make_error_feedback(const NoOptions& options, const MemoryParts& parts);

}  // namespace sotto
