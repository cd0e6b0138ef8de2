#include "sotto/kernels/fourier.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/fourier.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <bit>

#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

static_assert(fourier_lanes % lanes == 0);

// Bit reversal: swaps element k with the element whose number has the bits of k in reverse order.
void reverse_bits(float* values, std::size_t n) {
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) {
      std::swap_ranges(values + i * fourier_lanes, values + (i + 1) * fourier_lanes, values + j * fourier_lanes);
    }
  }
}

HWY_INLINE void butterfly(float* re_a, float* im_a, float* re_b, float* im_b, float cosine, float sine) {
  const VF c = set(cosine);
  const VF s = set(sine);
  for (std::size_t l = 0; l < fourier_lanes; l += lanes) {
    const VF b_re = load_floats(re_b + l);
    const VF b_im = load_floats(im_b + l);
    const VF re = hn::Add(hn::Mul(b_re, c), hn::Mul(b_im, s));
    const VF im = hn::Sub(hn::Mul(b_im, c), hn::Mul(b_re, s));
    const VF a_re = load_floats(re_a + l);
    const VF a_im = load_floats(im_a + l);
    hn::StoreU(hn::Sub(a_re, re), F32(), re_b + l);
    hn::StoreU(hn::Sub(a_im, im), F32(), im_b + l);
    hn::StoreU(hn::Add(a_re, re), F32(), re_a + l);
    hn::StoreU(hn::Add(a_im, im), F32(), im_a + l);
  }
}

void fourier(float* re, float* im, std::size_t n, const float* cosines, const float* sines) {
  reverse_bits(re, n);
  reverse_bits(im, n);
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t step = n / (2 * half);
    for (std::size_t begin = 0; begin < n; begin += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const std::size_t a = (begin + k) * fourier_lanes;
        const std::size_t b = a + half * fourier_lanes;
        butterfly(re + a, im + a, re + b, im + b, cosines[k * step], sines[k * step]);
      }
    }
  }
}

void hadamard(float* values, std::size_t n) {
  for (std::size_t half = 1; half < n; half *= 2) {
    for (std::size_t begin = 0; begin < n; begin += 2 * half) {
      float* a = values + begin * fourier_lanes;
      float* b = a + half * fourier_lanes;
      for (std::size_t i = 0; i < half * fourier_lanes; i += lanes) {
        const VF first = load_floats(a + i);
        const VF second = load_floats(b + i);
        hn::StoreU(hn::Add(first, second), F32(), a + i);
        hn::StoreU(hn::Sub(first, second), F32(), b + i);
      }
    }
  }
}

// Calls put(c, four) for each c < lanes with element c of the four vectors, which is four floats.
template <class Put>
HWY_INLINE void transpose_four(VF a, VF b, VF c, VF d, Put put) {
  using Pairs = hn::Repartition<std::uint64_t, F32>;
  const auto ab_low = hn::BitCast(Pairs(), hn::InterleaveLower(F32(), a, b));
  const auto ab_high = hn::BitCast(Pairs(), hn::InterleaveUpper(F32(), a, b));
  const auto cd_low = hn::BitCast(Pairs(), hn::InterleaveLower(F32(), c, d));
  const auto cd_high = hn::BitCast(Pairs(), hn::InterleaveUpper(F32(), c, d));
  // Each has its element of every 128-bit block.
  HWY_ALIGN float fours[4][lanes];
  hn::Store(hn::BitCast(F32(), hn::InterleaveLower(Pairs(), ab_low, cd_low)), F32(), fours[0]);
  hn::Store(hn::BitCast(F32(), hn::InterleaveUpper(Pairs(), ab_low, cd_low)), F32(), fours[1]);
  hn::Store(hn::BitCast(F32(), hn::InterleaveLower(Pairs(), ab_high, cd_high)), F32(), fours[2]);
  hn::Store(hn::BitCast(F32(), hn::InterleaveUpper(Pairs(), ab_high, cd_high)), F32(), fours[3]);
  for (std::size_t k = 0; k < lanes; ++k) put(k, &fours[k % 4][k / 4 * 4]);
}

HWY_INLINE void copy_four(const float* from, float* to) {
  const hn::FixedTag<float, 4> four;
  hn::StoreU(hn::LoadU(four, from), four, to);
}

// Where value k of a chunk is among the lanes.
struct Rows {
  HWY_INLINE std::size_t operator()(std::size_t k) const { return (order == nullptr ? k : order[k]) * fourier_lanes; }
  const std::uint32_t* order;
};

void to_lanes(const float* chunks, std::size_t count, std::size_t n, float* out, const std::uint32_t* order) {
  const Rows rows{order};
  if (count < fourier_lanes) std::fill_n(out, n * fourier_lanes, 0.0F);
  const std::size_t fours = n < lanes ? 0 : count / 4 * 4;
  for (std::size_t l = 0; l < fours; l += 4) {
    const float* chunk = chunks + l * n;
    for (std::size_t k = 0; k < n; k += lanes) {
      transpose_four(load_floats(chunk + k), load_floats(chunk + n + k), load_floats(chunk + 2 * n + k),
                     load_floats(chunk + 3 * n + k),
                     [&](std::size_t j, const float* four) { copy_four(four, out + rows(k + j) + l); });
    }
  }
  for (std::size_t l = fours; l < count; ++l) {
    for (std::size_t k = 0; k < n; ++k) out[rows(k) + l] = chunks[l * n + k];
  }
}

void from_lanes(const float* in, std::size_t count, std::size_t n, float* chunks, const std::uint32_t* order) {
  const Rows rows{order};
  const std::size_t whole = n < 4 ? 0 : count / lanes * lanes;
  for (std::size_t l = 0; l < whole; l += lanes) {
    for (std::size_t k = 0; k < n; k += 4) {
      transpose_four(load_floats(in + rows(k) + l), load_floats(in + rows(k + 1) + l),
                     load_floats(in + rows(k + 2) + l), load_floats(in + rows(k + 3) + l),
                     [&](std::size_t j, const float* four) { copy_four(four, chunks + (l + j) * n + k); });
    }
  }
  for (std::size_t l = whole; l < count; ++l) {
    for (std::size_t k = 0; k < n; ++k) chunks[l * n + k] = in[rows(k) + l];
  }
}

// ElementStream::mix() and at().
HWY_INLINE VU mixed(VU h) {
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  h = hn::Mul(h, set_bits(0x7feb352dU));
  h = hn::Xor(h, hn::ShiftRight<15>(h));
  h = hn::Mul(h, set_bits(0x846ca68bU));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}
HWY_INLINE VU numbers_at(VU i, const ElementStream& stream) {
  return mixed(hn::Xor(mixed(hn::Add(i, set_bits(stream.k0))), set_bits(stream.k1)));
}

void random_signs(std::span<const float> values, const ElementStream& stream, std::uint32_t number, float factor,
                  float* out) {
  const VU first = hn::Iota(U32(), 0);
  const VU sign = set_bits(0x80000000U);
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VU numbers = numbers_at(hn::Add(first, set_bits(number + static_cast<std::uint32_t>(i))), stream);
    const VU value = hn::BitCast(U32(), hn::Mul(load_floats(&values[i]), set(factor)));
    hn::StoreU(hn::BitCast(F32(), hn::Xor(value, hn::And(sign, numbers))), F32(), out + i);
  }
  for (; i < values.size(); ++i) {
    const std::uint32_t flip = stream.at(number + static_cast<std::uint32_t>(i)) & 0x80000000U;
    out[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i] * factor) ^ flip);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(fourier);
HWY_EXPORT(hadamard);
HWY_EXPORT(to_lanes);
HWY_EXPORT(from_lanes);
HWY_EXPORT(random_signs);

void fourier(std::span<float> re, std::span<float> im, std::size_t n, std::span<const float> cosines,
             std::span<const float> sines) {
  HWY_DYNAMIC_DISPATCH(fourier)(re.data(), im.data(), n, cosines.data(), sines.data());
}
void hadamard(std::span<float> values, std::size_t n) { HWY_DYNAMIC_DISPATCH(hadamard)(values.data(), n); }
void to_lanes(std::span<const float> chunks, std::size_t n, std::span<float> lanes,
              std::span<const std::uint32_t> order) {
  HWY_DYNAMIC_DISPATCH(to_lanes)(chunks.data(), chunks.size() / n, n, lanes.data(), order.data());
}
void from_lanes(std::span<const float> lanes, std::size_t n, std::span<float> chunks,
                std::span<const std::uint32_t> order) {
  HWY_DYNAMIC_DISPATCH(from_lanes)(lanes.data(), chunks.size() / n, n, chunks.data(), order.data());
}
void random_signs(std::span<const float> values, const ElementStream& stream, std::uint32_t number, float factor,
                  std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(random_signs)(values, stream, number, factor, out.data());
}

}  // namespace sotto::kernels
#endif
