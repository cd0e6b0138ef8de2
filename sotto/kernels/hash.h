#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto::kernels {

// A 64-bit hash, the same on every machine, for places in sketches and hash tables. It is output number key + 1 of
// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) with this seed, so no two keys have the same hash.
constexpr std::uint64_t hash64(std::uint64_t key, std::uint64_t seed = 0) {
  std::uint64_t h = seed + (key + 1) * 0x9E3779B97F4A7C15ULL;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

// Maps 32 bits of a hash to 0 .. places - 1: floor(bits * places / 2^32). REQUIRES places <= 2^32.
constexpr std::size_t place_of(std::uint32_t bits, std::size_t places) {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(bits) * places) >> 32);
}

}  // namespace sotto::kernels
