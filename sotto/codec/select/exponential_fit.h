#pragma once

#include <cstdint>
#include <span>

#include "sotto/codec/stage.h"

namespace sotto {

// The bits of a magnitude that about the share `ratio` of all atoms of these groups together reaches, if their
// magnitudes have an exponential tail; at most that of the largest one, and at least 1. Stages as in SIDCo (Abdelmoniem
// et al., MLSys 2021): the mean excess m of those that reach the last magnitude says that one in r of them reaches m ln
// r more; r is at most 4. A stage goes on from how many really reach it, so that only the guess of the last one is left
// in the result. Each is a pass over all atoms: four where a hundredth is aimed at.
std::uint32_t fit_exponential(ThreadPool& pool, std::span<const Group> groups, double ratio);

}  // namespace sotto
