#include "sotto/codec/quantise/bins.h"

#include <bit>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"

namespace sotto {

BinValues::BinValues(std::span<const std::byte> side) {
  for (std::size_t i = 0; i * sizeof(float) < side.size(); ++i) {
    const auto value = kernels::load<float>(side.data(), i);
    if (value == 0) break;
    values[count()] = value;
    ++(value > 0 ? positive : negative);
  }
}

void check_bins(std::span<const std::byte> side) {
  std::uint32_t last = 0;  // key of the previous bin
  bool ended = false;
  for (std::size_t i = 0; i * sizeof(float) < side.size(); ++i) {
    const auto value = kernels::load<float>(side.data(), i);
    const auto key = std::bit_cast<std::uint32_t>(value);
    ended = ended || key == 0;
    if (!std::isfinite(value)) throw WireError("bins: a value that is not finite");
    if (value == 0 && key != 0) throw WireError("bins: a value of minus zero");
    if (ended ? key != 0 : key < last) throw WireError("bins: values that are not in the order of their bins");
    last = key;
  }
}

}  // namespace sotto
