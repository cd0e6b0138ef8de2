#include "sotto/codec/code/frequencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "sotto/codec/code/bit_stream.h"
#include "sotto/core/error.h"
#include "sotto/kernels/rans.h"

namespace sotto {
namespace {

constexpr unsigned least_precision = 10;
constexpr unsigned quick_precision = 12;  // its tables stay in the first-level cache
constexpr std::ptrdiff_t few_symbols = 64;

}  // namespace

unsigned precision_for(std::span<const std::uint32_t> counts) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t most = *std::ranges::max_element(counts);
  const auto occurring = std::ssize(counts) - std::ranges::count(counts, 0U);
  // With few symbols, a too high frequency for rare ones costs little, unless the others cost hardly anything.
  const unsigned wanted =
      occurring <= few_symbols && 4 * most <= 3 * total ? quick_precision : kernels::rans_most_precision;
  return std::clamp(static_cast<unsigned>(std::bit_width(total)), least_precision, wanted);
}

void share_frequencies(std::span<const std::uint32_t> counts, unsigned precision,
                       std::span<std::uint32_t> frequencies) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto occurring = static_cast<std::uint64_t>(std::ssize(counts) - std::ranges::count(counts, 0U));
  const std::uint64_t shared = (std::uint64_t{1} << precision) - occurring;
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    frequencies[s] = counts[s] == 0 ? 0 : static_cast<std::uint32_t>(1 + counts[s] * shared / total);
    sum += frequencies[s];
  }
  const auto most = std::ranges::max_element(counts) - counts.begin();
  frequencies[static_cast<std::size_t>(most)] += static_cast<std::uint32_t>((std::uint64_t{1} << precision) - sum);
}

std::optional<std::size_t> write_frequencies(std::span<const std::uint32_t> frequencies, unsigned precision,
                                             std::span<std::byte> out) {
  BitWriter writer(out);
  writer.put(precision, 8);
  std::uint32_t left = 1U << precision;
  for (std::size_t s = 0; left > 0; left -= frequencies[s++]) writer.put_gamma(frequencies[s] + 1);
  return writer.size();
}

FrequencyTable read_frequencies(std::span<const std::byte> in, std::span<std::uint32_t> frequencies) {
  BitReader reader(in);
  const auto precision = static_cast<unsigned>(reader.get(8));
  if (precision < least_precision || precision > kernels::rans_most_precision) {
    throw WireError(fmt::format("rans: frequencies of {} bits", precision));
  }
  std::uint32_t left = 1U << precision;
  std::ranges::fill(frequencies, 0U);
  for (std::size_t s = 0; left > 0; left -= frequencies[s++]) {
    if (s == frequencies.size()) throw WireError("rans: frequencies that add up to too little");
    frequencies[s] = reader.get_gamma() - 1;
    if (frequencies[s] > left) throw WireError("rans: frequencies that add up to too much");
  }
  return {precision, reader.finish()};
}

}  // namespace sotto
