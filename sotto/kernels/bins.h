#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Bins of floats, numbered outwards from zero: bin 0 holds both zeros, then come the bins of positive values, then the
// bins of negative values. This is the order of the *keys*. The key of a float is its bits as a whole number; -0 has
// key 0.

inline constexpr std::size_t most_bins = 256;

// Sorts the keys in ascending order (radix sort). REQUIRES room.size() == keys.size() < 2^32.
void sort_keys(std::span<std::uint32_t> keys, std::span<std::uint32_t> room);

// The smallest and the largest magnitude, as float bits, of the positive and of the negative values; zeros do not
// count.
struct Extremes {
  struct Side {
    std::uint32_t least = 0x7F800000U;
    std::uint32_t most = 0;  // 0: no such value; 0x7F800000 or more: some value is not finite
  };
  Side positive, negative;
};
Extremes extremes(std::span<const float> values);
Extremes join(const Extremes& a, const Extremes& b);

// Finds the bin of a value: the number of splits that are not above its key.
class BinSearch {
 public:
  // `splits`: the keys where bins 1, 2, .. begin. `values`: about how many values will be looked up. REQUIRES ascending
  // splits, fewer than most_bins.
  void set(std::span<const std::uint32_t> splits, std::size_t values);
  void find(std::span<const float> values, std::span<std::uint16_t> bins) const;

  // The keys of each sign are divided into cells of 2^shift keys (cell 0 also has the keys far below the second split).
  // A cell says how many splits are not above its smallest key. It is marked `crowded` if several further splits lie in
  // it.
  static constexpr std::uint32_t cells = 2048;
  static constexpr std::uint32_t crowded = 1U << 31;
  struct Table {
    std::array<std::uint32_t, most_bins + 2> splits{};  // followed by keys that no value reaches
    std::array<std::uint32_t, 2> base{}, shift{};       // for positive and for negative keys
    std::array<std::uint32_t, std::size_t{2} * cells> below{};
    std::uint32_t by_halves(std::uint32_t key) const;
    std::uint32_t by_cells(std::uint32_t key) const;
  };

 private:
  void set_side(std::size_t side, std::size_t first, std::size_t last);

  std::size_t count_ = 0;
  bool has_cells_ = false;
  Table table_;
};

// out[i] += terms[bins[i]]. REQUIRES a term for every bin.
void add_terms(std::span<const std::uint16_t> bins, const float* terms, std::span<float> out);

}  // namespace sotto::kernels
