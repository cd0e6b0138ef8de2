#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/run.h"

namespace sotto::kernels {

// Rounding to levels that are not equally far apart. Levels are shares of a norm.

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

// The levels of 4-bit NormalFloat (Dettmers et al., QLoRA, NeurIPS 2023), as shares of the norm.
inline constexpr std::array<float, 16> nf4_levels{
    -1.0F,         -0.696192801F, -0.525073051F, -0.394917488F, -0.284441382F, -0.184773430F, -0.0910500363F, 0.0F,
    0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,  0.440709829F,  0.562617004F,  0.722956836F,   1.0F};

// Halfway between level i and level i + 1.
inline constexpr std::array<float, 15> nf4_middles = [] {
  std::array<float, 15> between{};
  for (std::size_t i = 0; i < between.size(); ++i) between[i] = (nf4_levels[i] + nf4_levels[i + 1]) / 2;
  return between;
}();

// symbols[i] = the number of middles below value / norm; 7, the level 0, where the norm is 0.
void nearest_nf4(std::span<const float> values, const Norms& norms, std::span<std::uint16_t> symbols);

}  // namespace sotto::kernels
