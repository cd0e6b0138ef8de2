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

struct AddLevelsRun {
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
  for_norms(norms, out.size(), AddLevelsRun{symbols.data(), static_cast<int>(top), step, scale, out.data()});
}

struct AddInt8Run {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    constexpr float step = 1.0F / static_cast<float>(int8_top);
    const hn::Rebind<std::int8_t, F32> signed_bytes;
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF level = hn::ConvertTo(F32(), hn::PromoteTo(I32(), load_bytes(signed_bytes, in + i)));
      accumulate(from_level(level, norm, step), set(scale), out + i);
    }
    for (; i < end; ++i) out[i] += scale * element::from_level(load<std::int8_t>(in, i), norm, step);
  }
  const std::byte* in;
  float scale;
  float* out;
};

void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out) {
  for_norms(norms, out.size(), AddInt8Run{in.data(), scale, out.data()});
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

void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out) {
  round_nearest(values, ends, Intervals{ends.floats.data()}, Bytes{out.data()});
}

void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out) {
  round_at_random(values, ends, Intervals{ends.floats.data()}, draws, Bytes{out.data()});
}

struct AddUint8Run {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, const element::Interval& grid) const {
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF level = hn::ConvertTo(F32(), hn::PromoteTo(I32(), load_bytes(U8(), in + i)));
      const VF inside = hn::Add(set(grid.begin), hn::Mul(level, set(grid.step)));
      const VF value = hn::IfThenElse(hn::Eq(level, set(grid.top)), set(grid.end), inside);
      accumulate(hn::Mul(value, set(grid.down)), set(scale), out + i);
    }
    for (; i < end; ++i) out[i] += scale * grid.from(load<std::uint8_t>(in, i));
  }
  const std::byte* in;
  float scale;
  float* out;
};

void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out) {
  for_blocks(ends, out.size(), Intervals{ends.floats.data()}, AddUint8Run{in.data(), scale, out.data()});
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

HWY_EXPORT(add_int8);
HWY_EXPORT(valid_int8);

void add_int8(std::span<const std::byte> in, const Norms& norms, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_int8)(in, norms, scale, out);
}
bool valid_int8(std::span<const std::byte> in) { return HWY_DYNAMIC_DISPATCH(valid_int8)(in); }

HWY_EXPORT(to_uint8);
HWY_EXPORT(to_uint8_stochastic);
HWY_EXPORT(add_uint8);

void to_uint8(std::span<const float> values, const Norms& ends, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_uint8)(values, ends, out);
}
void to_uint8_stochastic(std::span<const float> values, const Norms& ends, const Draws& draws,
                         std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(to_uint8_stochastic)(values, ends, draws, out);
}
void add_uint8(std::span<const std::byte> in, const Norms& ends, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_uint8)(in, ends, scale, out);
}

}  // namespace sotto::kernels
#endif
