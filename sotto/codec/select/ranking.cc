#include "sotto/codec/select/ranking.h"

#include <algorithm>
#include <array>

namespace sotto {
namespace {

constexpr unsigned number_bits = 31;
constexpr unsigned digit_bits = 11;
constexpr std::size_t most_tasks = 16;
using Counts = std::array<std::uint32_t, 1U << digit_bits>;

// Counts the digits at bits [shift, top) of those numbers whose bits above equal `prefix`.
void count_digits(std::span<const std::uint32_t> numbers, std::uint32_t prefix, unsigned top, unsigned shift,
                  Counts& counts) {
  counts.fill(0);
  const std::uint32_t mask = (1U << (top - shift)) - 1;
  for (const std::uint32_t number : numbers) {
    if (number >> top == prefix) ++counts[(number >> shift) & mask];
  }
}

}  // namespace

Ranked rank_largest(ThreadPool& pool, std::span<const std::uint32_t> numbers, std::size_t rank) {
  const std::size_t tasks = std::clamp<std::size_t>(numbers.size() / pool.grain(), 1,
                                                    std::min(static_cast<std::size_t>(pool.threads()), most_tasks));
  const std::size_t size = (numbers.size() + tasks - 1) / tasks;
  std::array<Counts, most_tasks> counts;  // for each task
  Ranked ranked;
  for (unsigned top = number_bits; top > 0;) {
    const unsigned shift = top - std::min(top, top == number_bits ? digit_bits : digit_bits - 1);
    pool.run_stretches(numbers.size(), size, [&](std::size_t begin, std::size_t end) {
      count_digits(numbers.subspan(begin, end - begin), ranked.value, top, shift, counts[begin / size]);
    });
    std::uint32_t digit = (1U << (top - shift)) - 1;
    for (;; --digit) {
      ranked.equal = 0;
      for (std::size_t t = 0; t * size < numbers.size(); ++t) ranked.equal += counts[t][digit];
      if (ranked.larger + ranked.equal >= rank) break;
      ranked.larger += ranked.equal;
    }
    ranked.value = ranked.value << (top - shift) | digit;
    top = shift;
  }
  return ranked;
}

}  // namespace sotto
