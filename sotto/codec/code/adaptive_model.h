#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/code/frequencies.h"
#include "sotto/kernels/count.h"

namespace sotto {

// Frequencies of the earlier symbols of a chunk, which encoder and decoder both know. They are used for one block of
// symbols; then that block is counted, too.
class AdaptiveModel {
 public:
  static constexpr std::size_t first_block = 256;  // symbols; each block is twice as long as the one before, up to
  static constexpr std::size_t longest_block = 8192;
  static constexpr std::uint32_t most_counted = 1U << 16;  // counts are halved when there are more

  explicit AdaptiveModel(std::size_t alphabet) : alphabet_(alphabet), total_(static_cast<std::uint32_t>(alphabet)) {
    std::fill_n(counts_.begin(), alphabet, 1U);
  }
  unsigned precision() const { return alphabet_ <= 64 ? 12 : 14; }
  std::size_t block() const { return block_; }
  void frequencies(std::span<std::uint32_t> out) const { share_frequencies(counts(), precision(), out); }
  void add(std::span<const std::uint16_t> symbols) {
    kernels::count_symbols(symbols, std::span(counts_).first(alphabet_));
    total_ += static_cast<std::uint32_t>(symbols.size());
    block_ = std::min(2 * block_, longest_block);
    if (total_ <= most_counted) return;
    total_ = 0;
    for (std::uint32_t& count : std::span(counts_).first(alphabet_)) total_ += count = (count + 1) / 2;
  }

 private:
  std::span<const std::uint32_t> counts() const { return std::span(counts_).first(alphabet_); }
  std::size_t alphabet_;
  std::size_t block_ = first_block;
  std::uint32_t total_;
  std::array<std::uint32_t, 512> counts_{};
};

}  // namespace sotto
