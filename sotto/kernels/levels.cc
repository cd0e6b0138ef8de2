#include "sotto/kernels/levels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/levels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

using I16 = hn::Rebind<std::int16_t, F32>;

struct Symbols {
  HWY_INLINE void vector(VU levels, std::size_t i) const {
    const auto level = hn::BitCast(I16(), hn::TruncateTo(U16(), levels));
    const auto symbol = hn::Xor(hn::Add(level, level), hn::BroadcastSignBit(level));
    hn::StoreU(hn::BitCast(U16(), symbol), U16(), out + i);
  }
  void one(std::int32_t level, std::size_t i) const {
    out[i] = static_cast<std::uint16_t>((2 * level) ^ (level < 0 ? -1 : 0));
  }
  std::uint16_t* out;
};

void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::uint16_t> symbols) {
  round_nearest(values, norms, NormGrids{norms.floats.data(), top}, Symbols{symbols.data()});
}

void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols) {
  round_at_random(values, norms, NormGrids{norms.floats.data(), top}, draws, Symbols{symbols.data()});
}

void nearest_bytes(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::byte> levels) {
  round_nearest(values, norms, NormGrids{norms.floats.data(), top}, Bytes{levels.data()});
}

void stochastic_bytes(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                      std::span<std::byte> levels) {
  round_at_random(values, norms, NormGrids{norms.floats.data(), top}, draws, Bytes{levels.data()});
}

struct AddRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    const auto least = hn::Set(I16(), static_cast<std::int16_t>(-top));
    const auto one = hn::Set(U16(), std::uint16_t{1});
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const auto symbol = hn::LoadU(U16(), symbols + i);
      const auto flip = hn::Neg(hn::BitCast(I16(), hn::And(symbol, one)));
      const auto level = hn::Max(hn::Xor(hn::BitCast(I16(), hn::ShiftRight<1>(symbol)), flip), least);
      accumulate(from_level(hn::ConvertTo(F32(), hn::PromoteTo(I32(), level)), norm, step), set(scale), out + i);
    }
    for (; i < end; ++i) {
      const int level = (symbols[i] >> 1) ^ ((symbols[i] & 1) != 0 ? -1 : 0);
      out[i] += scale * element::from_level(level > -top ? level : -top, norm, step);
    }
  }
  const std::uint16_t* symbols;
  int top;
  float step, scale;
  float* out;
};

void add_levels(std::span<const std::uint16_t> symbols, const Norms& norms, unsigned top, float scale,
                std::span<float> out) {
  const float step = 1.0F / static_cast<float>(top);
  for_norms(norms, out.size(), AddRun{symbols.data(), static_cast<int>(top), step, scale, out.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(nearest_levels);
HWY_EXPORT(stochastic_levels);
HWY_EXPORT(nearest_bytes);
HWY_EXPORT(stochastic_bytes);
HWY_EXPORT(add_levels);

void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(nearest_levels)(values, norms, top, symbols);
}
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(stochastic_levels)(values, norms, top, draws, symbols);
}
void nearest_levels(std::span<const float> values, const Norms& norms, unsigned top, std::span<std::byte> levels) {
  HWY_DYNAMIC_DISPATCH(nearest_bytes)(values, norms, top, levels);
}
void stochastic_levels(std::span<const float> values, const Norms& norms, unsigned top, const Draws& draws,
                       std::span<std::byte> levels) {
  HWY_DYNAMIC_DISPATCH(stochastic_bytes)(values, norms, top, draws, levels);
}
void add_levels(std::span<const std::uint16_t> symbols, const Norms& norms, unsigned top, float scale,
                std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_levels)(symbols, norms, top, scale, out);
}

}  // namespace sotto::kernels
#endif
