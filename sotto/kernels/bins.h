#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Bins of floats, numbered outwards from zero: bin 0 holds both zeros, then come those of positive values, then those
// of negative ones. That is the order of the bits of floats as whole numbers, the *keys*; but the key of -0 is 0.

inline constexpr std::size_t most_bins = 256;

// Ascending, by counting digits. REQUIRES room.size() == keys.size() < 2^32.
void sort_keys(std::span<std::uint32_t> keys, std::span<std::uint32_t> room);

// The smallest and the largest magnitude, as float bits, of the positive and of the negative values.
struct Extremes {
  struct Side {
    std::uint32_t least = 0x7F800000U;
    std::uint32_t most = 0;  // 0: there is none; 0x7F800000 or more: one is not finite
  };
  Side positive, negative;
};
Extremes extremes(std::span<const float> values);
Extremes join(const Extremes& a, const Extremes& b);

// Finds the bin of a value: the number of splits that its key reaches.
class BinSearch {
 public:
  // `splits` ascend and are fewer than most_bins. A search for about `values` of them is prepared for.
  void set(std::span<const std::uint32_t> splits, std::size_t values);
  void find(std::span<const float> values, std::span<std::uint16_t> bins) const;

  // The keys of one sign, but for those far below its second split, fall into cells of 2^shift keys, which say how many
  // splits stand below all of theirs. A cell in which more than one stands is `crowded`, besides; most have none.
  static constexpr std::uint32_t cells = 2048;
  static constexpr std::uint32_t crowded = 1U << 31;
  struct Table {
    std::array<std::uint32_t, most_bins + 2> splits{};  // and keys behind the last one that no value reaches
    std::array<std::uint32_t, 2> base{}, shift{};       // of positive and of negative keys
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
