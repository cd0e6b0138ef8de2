#include "sotto/kernels/bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/sign.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <cstring>

#include "sotto/kernels/lane_sum-inl.h"
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t step = sum_lanes;  // sixteen signs are two bytes

// Which of the values from `i` on get a 1 bit: the negative ones.
struct Negative {
  HWY_INLINE hn::Mask<F32> vector(VF value, std::size_t) const { return hn::Lt(value, hn::Zero(F32())); }
  bool one(float value, std::size_t) const { return value < 0.0F; }
};

// The same, plus randomly chosen zeros.
template <class Numbers>
struct NegativeOrDrawn {
  explicit NegativeOrDrawn(const Draws& from) : draws(from), numbers(from) {}
  HWY_INLINE hn::Mask<F32> vector(VF value, std::size_t i) const {
    const auto negative = hn::Lt(value, hn::Zero(F32()));
    const auto zero = hn::Eq(value, hn::Zero(F32()));
    if (hn::AllFalse(F32(), zero)) return negative;
    const auto drawn = hn::BitCast(F32(), hn::BroadcastSignBit(hn::BitCast(I32(), numbers.from(i).next())));
    return hn::Or(negative, hn::And(zero, hn::MaskFromVec(drawn)));
  }
  bool one(float value, std::size_t i) const {
    return value < 0.0F || (value == 0.0F && draws.stream.quick(draws.number(i)) >> 31 != 0);
  }
  const Draws& draws;
  Numbers numbers;
};

// `first` is the index of the chunk's first value among all values.
template <class Signs>
double pack_chunk(std::span<const float> values, std::size_t first, const Signs& signs, std::span<std::byte> out) {
  LaneSum sum;
  std::size_t i = 0;
  for (; i + step <= values.size(); i += step) {
    sum.add(&values[i], Magnitude());
    std::uint16_t bits = 0;
    for (std::size_t j = 0; j < step; j += lanes) {
      std::uint8_t some[8];
      hn::StoreMaskBits(F32(), signs.vector(load_floats(&values[i + j]), first + i + j), some);
      std::uint16_t word = some[0];
      if constexpr (lanes > 8) std::memcpy(&word, some, sizeof(word));
      bits = static_cast<std::uint16_t>(bits | (word << j));
    }
    std::memcpy(&out[i / 8], &bits, sizeof(bits));
  }
  const auto rest = values.subspan(i);
  for (std::size_t j = 0; j < rest.size(); ++j) {
    if (j % 8 == 0) out[(i + j) / 8] = std::byte{0};
    out[(i + j) / 8] |= static_cast<std::byte>(static_cast<unsigned>(signs.one(rest[j], first + i + j)) << (j % 8));
  }
  return sum.finish(rest, Magnitude());
}

template <class Signs>
double pack(std::span<const float> values, const Signs& signs, std::span<std::byte> out) {
  return sum_of_chunks(values, [&](std::span<const float> chunk, std::size_t begin) {
    return pack_chunk(chunk, begin, signs, out.subspan(begin / 8, (chunk.size() + 7) / 8));
  });
}

double pack_signs(std::span<const float> values, std::span<std::byte> out) { return pack(values, Negative(), out); }

double pack_drawn_signs(std::span<const float> values, const Draws& draws, std::span<std::byte> out) {
  if (draws.numbers.empty()) return pack(values, NegativeOrDrawn<Consecutive>(draws), out);
  return pack(values, NegativeOrDrawn<Listed>(draws), out);
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
HWY_EXPORT(pack_drawn_signs);
HWY_EXPORT(add_signs);

double pack_signs(std::span<const float> values, std::span<std::byte> out) {
  return HWY_DYNAMIC_DISPATCH(pack_signs)(values, out);
}
double pack_drawn_signs(std::span<const float> values, const Draws& draws, std::span<std::byte> out) {
  return HWY_DYNAMIC_DISPATCH(pack_drawn_signs)(values, draws, out);
}
void add_signs(std::span<const std::byte> in, std::size_t first, float magnitude, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_signs)(in, first, magnitude, out);
}

}  // namespace sotto::kernels
#endif
