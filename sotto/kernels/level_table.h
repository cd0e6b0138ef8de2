#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/draws.h"
#include "sotto/kernels/norms.h"

// Rounding to levels that are not equally far apart. Levels are shares of a norm.
namespace sotto::kernels {

inline constexpr std::size_t most_shares = 256;

// Rounds |v| / norm at random, without bias, to one of the two shares next to it (element.h has the exact operations).
// Symbols 0, 1, 2, 3, 4, .. stand for share 0, - share 1, share 1, - share 2, share 2, ..; share 0 where the norm is 0.
// `shares` has 2^bits ascending numbers, the first 0 and the last 1, and then a 2. REQUIRES bits <= 8, finite norms,
// and no value beyond its norm.
void random_shares(std::span<const float> values, const Norms& norms, std::span<const float> shares, const Draws& draws,
                   std::span<std::uint16_t> symbols);

// out[i] += scale * (norm * table[symbols[i]]).
void add_from_table(std::span<const std::uint16_t> symbols, const Norms& norms, std::span<const float> table,
                    float scale, std::span<float> out);

}  // namespace sotto::kernels
