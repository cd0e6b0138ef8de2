#pragma once

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/options.h"

namespace sotto {

// Mem-SGD (Stich, Cordonnier, Jaggi, NeurIPS 2018): error feedback with the learning rate inside. mem = mem + rate * g
// is what remains to be done, so a change of the rate does not touch what was held back before it. The optimiser
// multiplies what is sent by the rate, so mem is kept in units of the present one: e = mem / rate, which is rescaled
// when the rate changes. With one rate for all steps it is `ef`.
std::unique_ptr<Memory> make_memsgd(const NoOptions& options, const MemoryParts& parts);

}  // namespace sotto
