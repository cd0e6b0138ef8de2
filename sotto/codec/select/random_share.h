#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/stage.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// A share of the atoms at random, or of their blocks of `block`: of each group, or of all groups together (`pools`).
struct RandomShare {
  double ratio = 0.01;
  bool pools = false;
  bool unbiased = false;  // what is selected is scaled with n/k
  std::size_t block = 1;

  std::size_t blocks(std::size_t atoms) const { return (atoms + block - 1) / block; }
  // Those of Select.
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const;
  std::size_t select(ThreadPool& pool, std::span<const Group> groups, const Streams& streams,
                     std::span<std::uint32_t> indices, std::span<std::size_t> counts, std::span<float> scales) const;
  // As they are, E|C(x)-x|^2 = (1 - k/n) |x|^2; times n/k, (n/k - 1) |x|^2: of each norm that groups share.
  Contract contract(std::span<const std::size_t> atoms) const;
};

// k = share_of(ratio, n) of n numbers at random, each of them with probability k/n exactly: 0 .. n-1 lie on a circle,
// which is cut into k stretches of n/k from a random place on, and one is taken of each. Writes first + those numbers,
// ascending, and returns k: time is k, not n. The random numbers are at(number), for the place, and quick(number + s),
// for stretch s. REQUIRES n < 2^32.
std::size_t take_random_share(ThreadPool& pool, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out);

}  // namespace sotto
