#include "sotto/codec/select/candidates.h"

#include <cmath>

#include "sotto/codec/shared_work.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/select.h"

namespace sotto {
namespace {

constexpr unsigned number_bits = 31;
constexpr unsigned digit_bits = 11;
constexpr std::size_t ranking_tasks = 16;
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
                                                    std::min(static_cast<std::size_t>(pool.threads()), ranking_tasks));
  const std::size_t size = (numbers.size() + tasks - 1) / tasks;
  std::array<Counts, ranking_tasks> counts;  // for each task
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

std::size_t share_of(double ratio, std::size_t n) {
  const double k = std::ceil(static_cast<double>(n) * ratio * (1 - 1e-12));
  return std::min(static_cast<std::size_t>(k), n);
}

std::size_t collect(ThreadPool& pool, const Group& group, std::uint32_t least, std::uint32_t* out) {
  return list_in_order(
      pool, group.energies.size(),
      [&](std::size_t begin, std::size_t end) {
        return kernels::collect_magnitudes(group.energies.subspan(begin, end - begin), least,
                                           group.first + static_cast<std::uint32_t>(begin), out + begin);
      },
      [out](std::size_t from, std::size_t to, std::size_t n) { std::copy_n(out + from, n, out + to); });
}

std::span<const std::uint32_t> Candidates::sample(ThreadPool& pool, std::span<const Group> groups, std::size_t stride) {
  std::size_t count = 0;
  for (const Group& group : groups) count += group.energies.size() / stride;
  const auto sample = magnitudes_.room(count);
  std::size_t next = 0;
  for (const Group& group : groups) {
    const std::size_t some = group.energies.size() / stride;
    pool.run_stretches(some, scattered_grain(pool), [&](std::size_t begin, std::size_t end) {
      for (std::size_t j = begin; j < end; ++j) {
        const std::size_t within = (std::uint64_t{ElementStream::mix(static_cast<std::uint32_t>(j))} * stride) >> 32;
        sample[next + j] = kernels::element::magnitude_bits(group.energies[j * stride + within]);
      }
    });
    next += some;
  }
  return sample;
}

std::uint32_t Candidates::ranked(ThreadPool& pool, std::span<const std::uint32_t> sample, std::size_t rank) {
  if (sample.empty()) return 1;
  return std::max(rank_largest(pool, sample, std::clamp<std::size_t>(rank, 1, sample.size())).value, 1U);
}

std::size_t Candidates::collect(ThreadPool& pool, std::span<const Group> groups, std::uint32_t least,
                                std::span<std::size_t> counts) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  const auto numbers = numbers_.room(atoms);
  found_ = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    counts[g] = sotto::collect(pool, groups[g], least, numbers.data() + found_);
    found_ += counts[g];
  }
  return found_;
}

std::size_t Candidates::write(std::span<std::uint32_t> indices) const {
  std::copy_n(numbers_.data(), found_, indices.begin());
  return found_;
}

std::size_t Candidates::write_largest(ThreadPool& pool, std::size_t k, std::span<const Group> groups,
                                      std::span<std::uint32_t> indices, std::span<std::size_t> counts, Ties ties) {
  if (found_ <= k) return write(indices);
  const auto numbers = numbers_.room(found_);
  const auto magnitudes = magnitudes_.room(found_);
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    pool.run_stretches(counts[g], scattered_grain(pool), [&](std::size_t begin, std::size_t end) {
      for (std::size_t j = next + begin; j < next + end; ++j) {
        magnitudes[j] = kernels::element::magnitude_bits(groups[g].energies[numbers[j] - groups[g].first]);
      }
    });
    next += counts[g];
  }
  // From entry `last` on, atoms that equal the k-th largest are not kept.
  const Ranked kth = rank_largest(pool, magnitudes, k);
  std::size_t last = found_;
  if (ties == Ties::first && kth.larger + kth.equal > k) {
    last = 0;
    for (std::size_t wanted = k - kth.larger; wanted > 0; ++last) wanted -= magnitudes[last] == kth.value ? 1 : 0;
  }
  std::size_t kept = 0;
  next = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto write = [&](std::size_t begin, std::size_t end) {
      std::size_t at = next + begin;
      for (std::size_t j = next + begin; j < next + end; ++j) {
        numbers[at] = numbers[j];
        at += magnitudes[j] > kth.value || (magnitudes[j] == kth.value && j < last) ? 1 : 0;
      }
      return at - next - begin;
    };
    const auto move = [&](std::size_t from, std::size_t to, std::size_t n) {
      std::copy_n(&numbers[next + from], n, &numbers[next + to]);
    };
    const std::size_t some = list_in_order(pool, counts[g], write, move);
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(next), some,
                indices.begin() + static_cast<std::ptrdiff_t>(kept));
    next += counts[g];
    counts[g] = some;
    kept += some;
  }
  return kept;
}

// For few atoms: sorts keys of magnitude and position.
std::size_t Candidates::sort_largest(std::size_t k, const Group& group, std::span<std::uint32_t> indices,
                                     std::size_t& count) {
  std::array<std::uint64_t, few> keys;
  std::size_t found = 0;
  for (std::size_t i = 0; i < group.energies.size(); ++i) {
    const std::uint64_t magnitude = kernels::element::magnitude_bits(group.energies[i]);
    keys[found] = magnitude << 32 | ~static_cast<std::uint32_t>(i);
    found += magnitude > 0 ? 1 : 0;
  }
  const auto begin = keys.begin();
  count = std::min(k, found);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  if (count < found) std::nth_element(begin, end, begin + static_cast<std::ptrdiff_t>(found), std::greater<>());
  std::transform(begin, end, indices.begin(),
                 [&](std::uint64_t key) { return group.first + ~static_cast<std::uint32_t>(key); });
  std::sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::size_t Candidates::select_largest(ThreadPool& pool, std::size_t k, std::span<const Group> groups,
                                       std::span<std::uint32_t> indices, std::span<std::size_t> counts, Ties ties) {
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += group.energies.size();
  if (k == 0) {
    std::fill(counts.begin(), counts.end(), std::size_t{0});
    return 0;
  }
  if (groups.size() == 1 && atoms <= few && ties == Ties::first) return sort_largest(k, groups[0], indices, counts[0]);
  // Samples about 64 of the k largest atoms, but at most one atom in 8. The sample gives a threshold that a little more
  // than k atoms reach: its rank in the sample is four standard deviations beyond the expected rank. If fewer than k
  // atoms reach it, all atoms are collected.
  const double one_in = std::max(8.0, static_cast<double>(k) / 64);
  const auto sample = this->sample(pool, groups, static_cast<std::size_t>(one_in));
  const double expected = static_cast<double>(sample.size()) * static_cast<double>(k) / static_cast<double>(atoms);
  const std::uint32_t least = ranked(pool, sample, static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 4));
  if (collect(pool, groups, least, counts) < k && least > 1) {
    collect(pool, groups, 1, counts);
  }
  return write_largest(pool, k, groups, indices, counts, ties);
}

}  // namespace sotto
