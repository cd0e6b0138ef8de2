#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/norms.h"

namespace sotto::kernels {

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
