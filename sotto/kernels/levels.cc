#include "sotto/kernels/levels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/levels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>

#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

using I16 = hn::Rebind<std::int16_t, F32>;

HWY_INLINE void store_symbols(VU levels, std::uint16_t* out) {
  const auto level = hn::BitCast(I16(), hn::TruncateTo(U16(), levels));
  const auto symbol = hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level));
  hn::StoreU(hn::BitCast(U16(), symbol), U16(), out);
}

std::uint16_t symbol(std::int32_t level) { return static_cast<std::uint16_t>((2 * level) ^ (level < 0 ? -1 : 0)); }

void nearest_levels(std::span<const float> values, float norm, unsigned top, std::span<std::uint16_t> symbols) {
  const element::Grid grid(norm, top);
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_symbols(nearest_level(load_floats(&values[i]), grid), &symbols[i]);
  }
  for (; i < values.size(); ++i) symbols[i] = symbol(element::nearest_level(values[i], grid));
}

template <class Numbers>
HWY_INLINE std::size_t stochastic_vectors(std::span<const float> values, const element::Grid& grid,
                                          const Numbers& numbers, std::span<std::uint16_t> symbols) {
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    store_symbols(random_level(load_floats(&values[i]), grid, numbers.at(i)), &symbols[i]);
  }
  return i;
}

void stochastic_levels(std::span<const float> values, float norm, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols) {
  const element::Grid grid(norm, top);
  std::size_t i = draws.numbers.empty() ? stochastic_vectors(values, grid, Consecutive(draws), symbols)
                                        : stochastic_vectors(values, grid, Listed(draws), symbols);
  for (; i < values.size(); ++i) {
    symbols[i] = symbol(element::random_level(values[i], grid, draws.stream.at(draws.number(i))));
  }
}

void add_levels(std::span<const std::uint16_t> symbols, float norm, unsigned top, float scale, std::span<float> out) {
  const float step = 1.0F / static_cast<float>(top);
  const auto least = hn::Set(I16(), static_cast<std::int16_t>(-static_cast<int>(top)));
  const auto one = hn::Set(U16(), std::uint16_t{1});
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    const auto symbol = hn::LoadU(U16(), &symbols[i]);
    const auto flip = hn::Neg(hn::BitCast(I16(), hn::And(symbol, one)));
    const auto level = hn::Max(hn::Xor(hn::BitCast(I16(), hn::ShiftRight<1>(symbol)), flip), least);
    accumulate(from_level(hn::ConvertTo(F32(), hn::PromoteTo(I32(), level)), norm, step), set(scale), &out[i]);
  }
  for (; i < out.size(); ++i) {
    const int level = (symbols[i] >> 1) ^ ((symbols[i] & 1) != 0 ? -1 : 0);
    out[i] += scale * element::from_level(std::max(level, -static_cast<int>(top)), norm, step);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(nearest_levels);
HWY_EXPORT(stochastic_levels);
HWY_EXPORT(add_levels);

void nearest_levels(std::span<const float> values, float norm, unsigned top, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(nearest_levels)(values, norm, top, symbols);
}
void stochastic_levels(std::span<const float> values, float norm, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(stochastic_levels)(values, norm, top, draws, symbols);
}
void add_levels(std::span<const std::uint16_t> symbols, float norm, unsigned top, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_levels)(symbols, norm, top, scale, out);
}

}  // namespace sotto::kernels
#endif
