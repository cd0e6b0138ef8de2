#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

// Error feedback (Seide et al., 2014): offers p = e + g, and keeps e = p - sent. The learning rate is applied outside:
// e holds gradients, so a change of the rate applies to what was held back, too.
std::unique_ptr<Memory> make_error_feedback(const NoOptions& options, const MemoryParts& parts);

}  // namespace sotto
