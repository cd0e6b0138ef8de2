#include "sotto/kernels/blend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/blend.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>

#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::int32_t half_byte = 1 << (weight_bits - 1);

void blend_pixels(std::span<const std::uint8_t> row, std::span<const Taps> taps, std::span<const std::int32_t> weights,
                  std::span<std::uint8_t> out) {
  using Pixel = hn::FixedTag<std::int32_t, 4>;
  using PixelBytes = hn::Rebind<std::uint8_t, Pixel>;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::uint8_t* from = row.data() + std::size_t{4} * taps[i].first;
    const std::int32_t* weight = weights.data() + taps[i].weight;
    auto sum = hn::Set(Pixel(), half_byte);
    for (std::size_t k = 0; k < taps[i].count; ++k) {
      const auto pixel = hn::PromoteTo(Pixel(), hn::LoadU(PixelBytes(), from + 4 * k));
      sum = hn::Add(sum, hn::Mul(pixel, hn::Set(Pixel(), weight[k])));
    }
    hn::StoreU(hn::DemoteTo(PixelBytes(), hn::ShiftRight<weight_bits>(sum)), PixelBytes(), out.data() + 4 * i);
  }
}

void blend_rows(std::span<const std::uint8_t> rows, std::size_t stride, std::span<const std::int32_t> weights,
                std::span<std::uint8_t> out) {
  std::size_t j = 0;
  for (; j + lanes <= out.size(); j += lanes) {
    auto sum = hn::Set(I32(), half_byte);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const auto bytes = hn::PromoteTo(I32(), hn::LoadU(U8(), rows.data() + k * stride + j));
      sum = hn::Add(sum, hn::Mul(bytes, hn::Set(I32(), weights[k])));
    }
    hn::StoreU(hn::DemoteTo(U8(), hn::ShiftRight<weight_bits>(sum)), U8(), out.data() + j);
  }
  for (; j < out.size(); ++j) {
    std::int32_t sum = half_byte;
    for (std::size_t k = 0; k < weights.size(); ++k) sum += weights[k] * std::int32_t{rows[k * stride + j]};
    out[j] = static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(blend_pixels);
HWY_EXPORT(blend_rows);

void blend_pixels(std::span<const std::uint8_t> row, std::span<const Taps> taps, std::span<const std::int32_t> weights,
                  std::span<std::uint8_t> out) {
  HWY_DYNAMIC_DISPATCH(blend_pixels)(row, taps, weights, out);
}

void blend_rows(std::span<const std::uint8_t> rows, std::size_t stride, std::span<const std::int32_t> weights,
                std::span<std::uint8_t> out) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, stride, weights, out);
}

}  // namespace sotto::kernels
#endif
