#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

// Mem-SGD (Stich, Cordonnier, Jaggi, NeurIPS 2018): error feedback with the learning rate inside. mem = mem + rate * g
// is the change of the model that is still owed, so a change of the rate does not touch what was held back before.
// Because the optimiser multiplies what is sent by the rate, the memory keeps e = mem / rate, and rescales e when the
// rate changes. If the rate never changes, this is `ef`.
std::unique_ptr<Memory> make_memsgd(const NoOptions& options, const MemoryParts& parts);

}  // namespace sotto
