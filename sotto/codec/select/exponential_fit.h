#pragma once

#include <cstdint>
#include <span>

#include "sotto/codec/stage.h"

namespace sotto {

// Estimates the magnitude, as bits, that about a share `ratio` of all atoms of these groups reaches, if the magnitudes
// have an exponential tail. The result is at least 1 and at most the largest magnitude. It works in stages, as SIDCo
// (Abdelmoniem et al., MLSys 2021): if the atoms above the current threshold exceed it by m on average, one in r of
// them exceeds it by m ln r; r is at most 4. Each stage counts the atoms above the last threshold, so only the last
// stage's error remains. Each stage is a pass over all atoms; a ratio of 0.01 takes four.
std::uint32_t fit_exponential(ThreadPool& pool, std::span<const Group> groups, double ratio);

}  // namespace sotto
