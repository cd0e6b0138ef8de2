#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/stage.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Selects a random share of the atoms, or of their blocks of `block` atoms: of each group, or of all groups together
// (`pools`).
struct RandomShare {
  double ratio = 0.01;
  bool pools = false;
  bool unbiased = false;  // selected atoms are scaled by n/k
  std::size_t block = 1;

  std::size_t blocks(std::size_t atoms) const { return (atoms + block - 1) / block; }
  // Like the functions of Select.
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const;
  std::size_t select(ThreadPool& pool, std::span<const Group> groups, const Streams& streams,
                     std::span<std::uint32_t> indices, std::span<std::size_t> counts, std::span<float> scales) const;
  // Unscaled: E|C(x)-x|^2 = (1 - k/n) |x|^2; scaled by n/k: (n/k - 1) |x|^2, for the norm of each group or of all
  // together.
  Contract contract(std::span<const std::size_t> atoms) const;
};

// Draws k = share_of(ratio, n) of n numbers, each with probability exactly k/n: the numbers 0 .. n-1 lie on a circle,
// which is cut from a random place into k stretches of length n/k; one number is drawn from each. Writes `first` +
// these numbers, ascending, and returns k; the time is O(k), not O(n). The random numbers are at(number) for the place
// and quick(number + s) for stretch s. REQUIRES n < 2^32.
std::size_t take_random_share(ThreadPool& pool, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out);

}  // namespace sotto
