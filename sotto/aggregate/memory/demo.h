#pragma once

#include "sotto/aggregate/memory/memory.h"

namespace sotto {

// Decoupled momentum (Peng, Quesnelle, Kingma, DeMo, 2024): a momentum of each rank's own, m = decay * m + g, of which
// the largest components are sent and taken off; what is slow and small stays local. The learning rate is outside. The
// optimiser has no momentum beside this one, and in the paper takes the signs of the mean.
std::unique_ptr<Memory> make_demo(const Sentence& sentence, const Call& call, const MemoryParts& parts);
std::string help_demo();

}  // namespace sotto
