#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Keys (kernels/bins.h) of some values that are not zero, by which quantiles are found. Of zeros there may be far more
// than of all other values, so that a sample of places would miss those.
class KeySample {
 public:
  static constexpr std::size_t most = std::size_t{1} << 15;
  KeySample() {
    keys_.room(most);
    sorting_.room(most);
  }

  // Ascending: those of all values that are not zero, or of one in each s of them where there are more than `most`,
  // with the least s of which at most so many come.
  std::span<const std::uint32_t> take(ThreadPool& pool, std::span<const float> values);
  void reserve(std::size_t values) { before_.room(chunks(values) + 1); }  // take() of so many then allocates nothing

 private:
  static constexpr std::size_t chunk = 4096;  // values whose number of zeros is known
  static std::size_t chunks(std::size_t values) { return (values + chunk - 1) / chunk; }
  void count(ThreadPool& pool, std::span<const float> values);

  Scratch<std::uint32_t> keys_, sorting_;
  Scratch<std::uint32_t> before_;  // how many values that are not zero stand before each chunk, and how many there are
};

}  // namespace sotto
