#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/random.h"

namespace sotto::kernels {

// Which random number each value of a run takes: number j of `stream` is offset + j, or offset + numbers[j] when there
// are numbers (modulo 2^32).
struct Draws {
  ElementStream stream;
  std::uint32_t offset = 0;
  std::span<const std::uint32_t> numbers;

  Draws part(std::size_t begin, std::size_t count) const {
    if (numbers.empty()) return {stream, offset + static_cast<std::uint32_t>(begin), {}};
    return {stream, offset, numbers.subspan(begin, count)};
  }
};

// Stochastic rounding to signed levels: y = |v| / norm * top, level = floor(y), one more when the upper 31 bits of the
// random number are below (y - floor(y)) * 2^31, rounded down: with that probability, to 2^-31. At most top. A symbol
// is level, plus sign_bit where v < 0 and the level is not 0; all are 0 when norm is 0. REQUIRES norm finite and >= 0,
// top < sign_bit, sign_bit < 2^16.
void stochastic_levels(std::span<const float> values, float norm, std::uint32_t top, std::uint32_t sign_bit,
                       const Draws& draws, std::span<std::uint16_t> symbols);

// out[i] += scale * (norm * (level / top)), with the sign. REQUIRES top + 1 == sign_bit, a power of two.
void add_levels(std::span<const std::uint16_t> symbols, float norm, std::uint32_t top, float scale,
                std::span<float> out);

}  // namespace sotto::kernels
