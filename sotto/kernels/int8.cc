#include "sotto/kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/int8.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/levels-inl.h"
#include "sotto/kernels/load.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE void store_levels(VU level, std::byte* out) { store_bytes(U8(), hn::TruncateTo(U8(), level), out); }

void to_int8(std::span<const float> values, float norm, std::span<std::byte> out) {
  const element::Grid grid(norm, 127);
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) store_levels(nearest_level(load_floats(&values[i]), grid), &out[i]);
  for (; i < values.size(); ++i) out[i] = static_cast<std::byte>(element::nearest_level(values[i], grid));
}

template <class Numbers>
HWY_INLINE std::size_t stochastic_vectors(std::span<const float> values, const element::Grid& grid,
                                          const Numbers& numbers, std::span<std::byte> out) {
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_levels(random_level(load_floats(&values[i]), grid, numbers.at(i)), &out[i]);
  }
  return i;
}

void to_int8_stochastic(std::span<const float> values, float norm, const Draws& draws, std::span<std::byte> out) {
  const element::Grid grid(norm, 127);
  std::size_t i = draws.numbers.empty() ? stochastic_vectors(values, grid, Consecutive(draws), out)
                                        : stochastic_vectors(values, grid, Listed(draws), out);
  for (; i < values.size(); ++i) {
    out[i] = static_cast<std::byte>(element::random_level(values[i], grid, draws.stream.at(draws.number(i))));
  }
}

void add_int8(std::span<const std::byte> in, float norm, float scale, std::span<float> out) {
  constexpr float step = 1.0F / 127.0F;
  const hn::Rebind<std::int8_t, F32> signed_bytes;
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    const VF level = hn::ConvertTo(F32(), hn::PromoteTo(I32(), load_bytes(signed_bytes, &in[i])));
    accumulate(from_level(level, norm, step), set(scale), &out[i]);
  }
  for (; i < out.size(); ++i) out[i] += scale * element::from_level(load<std::int8_t>(in.data(), i), norm, step);
}

bool valid_int8(std::span<const std::byte> in) {
  const hn::CappedTag<std::int8_t, 64> d;
  const std::size_t step = hn::Lanes(d);
  auto least = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= in.size(); i += step) least = hn::Min(least, load_bytes(d, &in[i]));
  bool good = hn::AllFalse(d, hn::Eq(least, hn::Set(d, -128)));
  for (; i < in.size(); ++i) good = good && in[i] != std::byte{0x80};
  return good;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(to_int8);
HWY_EXPORT(to_int8_stochastic);
HWY_EXPORT(add_int8);
HWY_EXPORT(valid_int8);

void to_int8(std::span<const float> values, float norm, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_int8)(values, norm, out);
}
void to_int8_stochastic(std::span<const float> values, float norm, const Draws& draws, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_int8_stochastic)(values, norm, draws, out);
}
void add_int8(std::span<const std::byte> in, float norm, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_int8)(in, norm, scale, out);
}
bool valid_int8(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(valid_int8)(in); }

}  // namespace sotto::kernels
#endif
