#include "sotto/kernels/sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/sign.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <cstring>

#include "sotto/kernels/lane_sum-inl.h"
#include "sotto/kernels/load.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t step = LaneSum::count;  // sixteen signs are two bytes

struct Magnitude {
  HWY_INLINE VD operator()(VD x) const { return hn::Abs(x); }
  double operator()(double x) const { return x < 0 ? -x : x; }
};

double pack_chunk(std::span<const float> values, std::span<std::byte> out) {
  LaneSum sum;
  std::size_t i = 0;
  for (; i + step <= values.size(); i += step) {
    sum.add(&values[i], Magnitude());
    std::uint16_t bits = 0;
    for (std::size_t j = 0; j < step; j += lanes) {
      std::uint8_t some[8];
      hn::StoreMaskBits(F32(), hn::Lt(load_floats(&values[i + j]), hn::Zero(F32())), some);
      std::uint16_t word = some[0];
      if constexpr (lanes > 8) std::memcpy(&word, some, sizeof(word));
      bits = static_cast<std::uint16_t>(bits | (word << j));
    }
    std::memcpy(&out[i / 8], &bits, sizeof(bits));
  }
  const auto rest = values.subspan(i);
  for (std::size_t j = 0; j < rest.size(); ++j) {
    if (j % 8 == 0) out[(i + j) / 8] = std::byte{0};
    out[(i + j) / 8] |= static_cast<std::byte>(static_cast<unsigned>(rest[j] < 0.0F) << (j % 8));
  }
  return sum.finish(rest, Magnitude());
}

double pack_signs(std::span<const float> values, std::span<std::byte> out) {
  return sum_of_chunks(values, [&](std::span<const float> chunk, std::size_t begin) {
    return pack_chunk(chunk, out.subspan(begin / 8, (chunk.size() + 7) / 8));
  });
}

void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out) {
  // Bit j of a word becomes the sign of lane j.
  const VU to_sign = hn::Sub(set_bits(31), hn::Iota(U32(), 0));
  const VU signs = set_bits(element::sign_mask);
  const VU unsigned_value = hn::BitCast(U32(), set(magnitude));
  const std::size_t bytes = in.size();
  std::size_t i = 0;
  for (; i + step <= out.size() && (first + i) / 8 + sizeof(std::uint32_t) <= bytes; i += step) {
    std::uint32_t word = 0;
    std::memcpy(&word, &in[(first + i) / 8], sizeof(word));
    word >>= (first + i) % 8;
    for (std::size_t j = 0; j < step; j += lanes) {
      const VU sign = hn::And(hn::Shl(set_bits(word >> j), to_sign), signs);
      const VF value = hn::BitCast(F32(), hn::Xor(unsigned_value, sign));
      hn::StoreU(hn::Add(load_floats(&out[i + j]), value), F32(), &out[i + j]);
    }
  }
  for (; i < out.size(); ++i) {
    const std::size_t bit = first + i;
    out[i] += ((std::to_integer<unsigned>(in[bit / 8]) >> (bit % 8)) & 1U) != 0 ? -magnitude : magnitude;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(pack_signs);
HWY_EXPORT(add_signs);

double pack_signs(std::span<const float> values, std::span<std::byte> out) {
  return HWY_DYNAMIC_DISPATCH(pack_signs)(values, out);
}
void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_signs)(in, first, magnitude, out);
}

}  // namespace sotto::kernels
#endif
