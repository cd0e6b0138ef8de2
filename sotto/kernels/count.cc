#include "sotto/kernels/count.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sotto::kernels {

void count_symbols(std::span<const std::uint16_t> symbols, std::span<std::uint32_t> counts) {
  // Neighbours are often equal. They are counted in different places, so that no increment waits for the previous one.
  constexpr std::size_t places = 4;
  std::array<std::array<std::uint32_t, 512>, places> some;
  for (auto& place : some) std::fill_n(place.begin(), counts.size(), 0U);
  std::size_t i = 0;
  for (; i + places <= symbols.size(); i += places) {
    for (std::size_t j = 0; j < places; ++j) ++some[j][symbols[i + j]];
  }
  for (; i < symbols.size(); ++i) ++some[0][symbols[i]];
  for (std::size_t s = 0; s < counts.size(); ++s) {
    for (const auto& place : some) counts[s] += place[s];
  }
}

}  // namespace sotto::kernels
