#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Keys (kernels/bins.h) of a sample of the non-zero values, for finding quantiles. There may be far more zeros than
// other values, so a sample of positions could miss the others.
class KeySample {
 public:
  static constexpr std::size_t most = std::size_t{1} << 15;
  KeySample() {
    keys_.room(most);
    sorting_.room(most);
  }

  // Returns ascending keys: of all non-zero values or, if there are more than `most`, of one in every s of them, with
  // the smallest s that leaves at most `most`.
  std::span<const std::uint32_t> take(ThreadPool& pool, std::span<const float> values);
  void reserve(std::size_t values) { before_.room(chunks(values) + 1); }  // for take()

 private:
  static constexpr std::size_t chunk = 4096;  // values per count of non-zero values
  static std::size_t chunks(std::size_t values) { return (values + chunk - 1) / chunk; }
  void count(ThreadPool& pool, std::span<const float> values);

  Scratch<std::uint32_t> keys_, sorting_;
  Scratch<std::uint32_t> before_;  // how many non-zero values come before each chunk; then their total
};

}  // namespace sotto
