#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// The rank-th largest (counted from 1) of numbers below 2^31, and how many numbers are larger and how many equal it.
struct Ranked {
  std::uint32_t value = 0;
  std::size_t larger = 0, equal = 0;
};
// Three counting passes, over 11, 10 and 10 bits. REQUIRES 1 <= rank <= numbers.size() < 2^32.
Ranked rank_largest(ThreadPool& pool, std::span<const std::uint32_t> numbers, std::size_t rank);

// ceil(ratio * n), at most n. A product that should be whole, such as 0.07 * 100, may come out slightly too large; this
// is corrected.
std::size_t share_of(double ratio, std::size_t n);

// kernels::collect_magnitudes() on several threads.
std::size_t collect(ThreadPool& pool, const Group& group, std::uint32_t least, std::uint32_t* out);

// The atoms of some groups that may be among the largest: one pass collects all atoms that reach a given magnitude.
// Magnitudes are float bits without the sign (kernels/select.h); zeros are never candidates.
class Candidates {
 public:
  // Magnitudes of one atom in every `stride` atoms of a group: sample j of a group is its atom j * stride +
  // floor(ElementStream::mix(j) * stride / 2^32). The atoms after the last whole stride are left out.
  std::span<const std::uint32_t> sample(ThreadPool& pool, std::span<const Group> groups, std::size_t stride);
  // The rank-th largest magnitude of a sample; 1 if it is zero, or if the sample has fewer magnitudes.
  static std::uint32_t ranked(ThreadPool& pool, std::span<const std::uint32_t> sample, std::size_t rank);

  // Collects all atoms of magnitude `least` or more and counts them for each group; returns the total.
  std::size_t collect(ThreadPool& pool, std::span<const Group> groups, std::uint32_t least,
                      std::span<std::size_t> counts);
  // Which of the atoms that equal the k-th largest count among the k largest.
  enum class Ties : std::uint8_t { first, all };
  // Writes the ascending numbers of all collected atoms, or of the k largest of them; returns their count.
  std::size_t write(std::span<std::uint32_t> indices) const;
  std::size_t write_largest(ThreadPool& pool, std::size_t k, std::span<const Group> groups,
                            std::span<std::uint32_t> indices, std::span<std::size_t> counts, Ties ties = Ties::first);

  // Selects exactly the k largest atoms of these groups together; the results have the same form.
  std::size_t select_largest(ThreadPool& pool, std::size_t k, std::span<const Group> groups,
                             std::span<std::uint32_t> indices, std::span<std::size_t> counts, Ties ties = Ties::first);

  void reserve(std::size_t atoms) {
    numbers_.room(atoms);
    magnitudes_.room(atoms);
  }

 private:
  static constexpr std::size_t few = 512;
  static std::size_t sort_largest(std::size_t k, const Group& group, std::span<std::uint32_t> indices,
                                  std::size_t& count);

  std::size_t found_ = 0;
  Scratch<std::uint32_t> numbers_;     // of the candidates, ascending
  Scratch<std::uint32_t> magnitudes_;  // of the candidates or the sample
};

}  // namespace sotto
