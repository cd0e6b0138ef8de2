#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sotto {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure function of counter and
// key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// What random numbers are used for. Streams of different purposes are independent.
enum class Purpose : std::uint32_t {
  quantise = 1,
  select,
  transform,
  shuffle,
  data,
  init,
  dropout,
  test,
  select_within,  // selections of rows inside a selected atom
  jitter,         // delays of emulated links
  augment,        // changes of training images
  mask            // which tokens of a text are hidden
};

// A sequential generator over Philox, for everything outside kernels: shuffles, generated data, seeds.
class Philox {
 public:
  Philox(std::uint64_t seed, Purpose purpose, std::uint64_t index = 0);
  std::uint32_t next();
  double uniform();                          // [0, 1)
  double normal();                           // mean 0, variance 1 (Box-Muller)
  std::uint32_t below(std::uint32_t bound);  // 0 .. bound-1, without modulo bias; REQUIRES bound > 0

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

// Random numbers for kernels. Number i is a hash of i under a 64-bit key, so that any thread or SIMD lane can make any
// number: two rounds of the 32-bit mixer "lowbias32" (C. Wellons), keyed before each round.
struct ElementStream {
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;

  static constexpr std::uint32_t mix(std::uint32_t h) {
    h ^= h >> 16;
    h *= 0x7feb352dU;
    h ^= h >> 15;
    h *= 0x846ca68bU;
    return h ^ (h >> 16);
  }
  constexpr std::uint32_t at(std::uint32_t i) const { return mix(mix(i + k0) ^ k1); }
  // A second set of numbers at half the cost, for stochastic rounding: a single round, keyed before it and in its
  // middle.
  constexpr std::uint32_t quick(std::uint32_t i) const {
    std::uint32_t h = i + k0;
    h ^= h >> 16;
    h *= 0x7feb352dU;
    h ^= (h >> 15) ^ k1;
    h *= 0x846ca68bU;
    return h ^ (h >> 16);
  }
  // Uniform in [0, 1), a multiple of 2^-24, which a float holds exactly.
  constexpr float uniform(std::uint32_t i) const { return static_cast<float>(at(i) >> 8) * 0x1p-24F; }
};

// The stream for one use of random numbers: a pure function of the arguments, so that every run can be replayed. `part`
// numbers several uses within a bucket.
ElementStream element_stream(std::uint64_t seed, Purpose purpose, std::uint32_t rank, std::uint64_t step,
                             std::uint32_t bucket, std::uint32_t part = 0);

// Fills `values` with 0 .. n-1 in a random order that depends on (seed, index) alone.
void shuffle(std::span<std::uint32_t> values, std::uint64_t seed, std::uint64_t index);

}  // namespace sotto
