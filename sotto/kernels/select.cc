#include "sotto/kernels/select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/select.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out) {
  // Usually few values are taken, so a whole block is tested first.
  constexpr std::size_t vectors = 4;
  constexpr std::size_t block = vectors * lanes;
  const VI below = hn::Set(I32(), static_cast<std::int32_t>(least - 1));
  const VU numbers = hn::Iota(U32(), first);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + block <= values.size(); i += block) {
    VI bits[vectors];
    for (std::size_t j = 0; j < vectors; ++j) bits[j] = magnitudes(load_floats(&values[i + j * lanes]));
    const VI most = hn::Max(hn::Max(bits[0], bits[1]), hn::Max(bits[2], bits[3]));
    if (hn::AllFalse(I32(), hn::Gt(most, below))) continue;
    for (std::size_t j = 0; j < vectors; ++j) {
      const VU number = hn::Add(numbers, set_bits(static_cast<std::uint32_t>(i + j * lanes)));
      // Stores a whole vector. There is room, since at most as many numbers as values precede it. (CompressStore would
      // write only the taken numbers, but takes a hundred cycles on some processors.)
      const auto taken = hn::RebindMask(U32(), hn::Gt(bits[j], below));
      hn::StoreU(hn::Compress(number, taken), U32(), out + count);
      count += hn::CountTrue(U32(), taken);
    }
  }
  for (; i < values.size(); ++i) {
    if (element::magnitude_bits(values[i]) >= least) out[count++] = first + static_cast<std::uint32_t>(i);
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(collect_magnitudes);

std::size_t collect_magnitudes(std::span<const float> values, std::uint32_t least, std::uint32_t first,
                               std::uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(collect_magnitudes)(values, least, first, out);
}

}  // namespace sotto::kernels
#endif
