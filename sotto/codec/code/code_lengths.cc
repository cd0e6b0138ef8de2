#include "sotto/codec/code/code_lengths.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sotto {
namespace {

constexpr std::size_t most_symbols = 512;
constexpr std::size_t most_levels = 15;

}  // namespace

void code_lengths(std::span<const std::uint32_t> counts, unsigned longest, std::span<std::uint8_t> lengths) {
  std::array<std::uint16_t, most_symbols> order{};  // symbols that occur, the rarest first; ties go to the smaller
  std::size_t n = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    lengths[s] = 0;
    if (counts[s] > 0) order[n++] = static_cast<std::uint16_t>(s);
  }
  if (n == 1) {
    lengths[order[0]] = lengths[order[0] ^ 1U] = 1;
    return;
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n),
            [&](std::uint16_t a, std::uint16_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a < b; });

  // One list for each bit of length: all symbols, and the pairs of the previous list, ordered by count, symbols before
  // pairs. Later only `is_symbol` of each list is needed.
  std::array<std::array<bool, 2 * most_symbols>, most_levels> is_symbol{};
  std::array<std::uint64_t, 2 * most_symbols> list{};
  std::array<std::uint64_t, most_symbols> pairs{};
  std::size_t pair_count = 0;
  for (unsigned level = 0; level < longest; ++level) {
    std::size_t symbol = 0;
    std::size_t pair = 0;
    for (std::size_t i = 0; i < n + pair_count; ++i) {
      is_symbol[level][i] = pair == pair_count || (symbol < n && counts[order[symbol]] <= pairs[pair]);
      list[i] = is_symbol[level][i] ? counts[order[symbol++]] : pairs[pair++];
    }
    pair_count = (n + pair_count) / 2;
    for (std::size_t i = 0; i < pair_count; ++i) pairs[i] = list[2 * i] + list[2 * i + 1];
  }
  // Takes the first 2 n - 2 entries of the last list, then the entries of the previous list that form the taken pairs,
  // and so on. A symbol's length is the number of lists in which it is taken.
  std::size_t taken = 2 * n - 2;
  for (unsigned level = longest; level-- > 0;) {
    const auto symbols = static_cast<std::size_t>(
        std::count(is_symbol[level].begin(), is_symbol[level].begin() + static_cast<std::ptrdiff_t>(taken), true));
    for (std::size_t i = 0; i < symbols; ++i) ++lengths[order[i]];
    taken = 2 * (taken - symbols);
  }
}

}  // namespace sotto
