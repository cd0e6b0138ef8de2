#include "sotto/kernels/levels.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sotto::kernels {
namespace {

template <class Number>
void round_levels(std::span<const float> values, float norm, std::uint32_t top, std::uint32_t sign_bit,
                  const ElementStream stream, Number number, std::span<std::uint16_t> symbols) {
  const float levels = static_cast<float>(top);
  const auto limit = static_cast<std::int32_t>(top);
  for (std::size_t j = 0; j < values.size(); ++j) {
    const float y = std::abs(values[j]) / norm * levels;
    const auto floor = static_cast<std::int32_t>(y);
    // Whole numbers of 31 bits, so that the smallest fractions are not rounded up too often.
    const auto chance = static_cast<std::int32_t>((y - static_cast<float>(floor)) * 0x1p31F);
    const auto drawn = static_cast<std::int32_t>(stream.at(number(j)) >> 1);
    std::int32_t level = floor + (drawn < chance ? 1 : 0);
    level = level < limit ? level : limit;
    const std::uint32_t sign = ((values[j] < 0.0F) & (level > 0)) ? sign_bit : 0U;
    symbols[j] = static_cast<std::uint16_t>(static_cast<std::uint32_t>(level) | sign);
  }
}

}  // namespace

void stochastic_levels(std::span<const float> values, float norm, std::uint32_t top, std::uint32_t sign_bit,
                       const Draws& draws, std::span<std::uint16_t> symbols) {
  if (norm == 0.0F) {
    std::fill_n(symbols.begin(), values.size(), std::uint16_t{0});
  } else if (draws.numbers.empty()) {
    const std::uint32_t offset = draws.offset;
    const auto consecutive = [offset](std::size_t j) { return offset + static_cast<std::uint32_t>(j); };
    round_levels(values, norm, top, sign_bit, draws.stream, consecutive, symbols);
  } else {
    const std::uint32_t offset = draws.offset;
    const std::uint32_t* numbers = draws.numbers.data();
    const auto listed = [offset, numbers](std::size_t j) { return offset + numbers[j]; };
    round_levels(values, norm, top, sign_bit, draws.stream, listed, symbols);
  }
}

void add_levels(std::span<const std::uint16_t> symbols, float norm, std::uint32_t top, float scale,
                std::span<float> out) {
  const float levels = static_cast<float>(top);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t symbol = symbols[i];
    const float magnitude = norm * (static_cast<float>(static_cast<std::int32_t>(symbol & top)) / levels);
    const float value = symbol > top ? -magnitude : magnitude;
    out[i] += scale * value;
  }
}

}  // namespace sotto::kernels
