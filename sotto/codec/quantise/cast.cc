#include "sotto/codec/quantise/cast.h"

#include <algorithm>

#include "sotto/codec/quantise/side.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

bool Cast::encode(const Values& values, std::span<std::byte> /*side*/, std::span<std::byte> packed) {
  return write(values.data, 1, packed);
}

void Cast::add_decoded(std::span<const std::byte> /*side*/, std::span<const std::byte> packed, float scale,
                       std::span<float> out) const {
  add(packed, scale, out);
}

bool Cast::write(std::span<const float> values, float scale, std::span<std::byte> out) const {
  constexpr std::size_t block = 4096;  // checked and converted while in the cache
  const std::size_t bytes = size_of(type());
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    if (!fits(kernels::max_abs_bits(part), scale, largest_float)) return false;
    convert(part, scale, out.subspan(begin * bytes, part.size() * bytes));
  }
  return true;
}

}  // namespace sotto
