#include "sotto/kernels/level_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/level_table.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>

#include "sotto/kernels/levels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// Where shares are looked up: in memory, or, where they fit, in a register.
struct SharesInMemory {
  explicit SharesInMemory(std::span<const float> all) : shares(all.data()) {}
  HWY_INLINE VF at(VI place) const { return hn::GatherIndex(F32(), shares, place); }
  HWY_INLINE VF after(VI place) const { return at(hn::Add(place, hn::Set(I32(), 1))); }
  const float* shares;
};

struct SharesInRegister {
  explicit SharesInRegister(std::span<const float> all) {
    float room[lanes + 1] = {};
    std::copy(all.begin(), all.end(), room);
    low = hn::LoadU(F32(), room);
    high = hn::LoadU(F32(), room + 1);
  }
  HWY_INLINE VF at(VI place) const { return hn::TableLookupLanes(low, hn::IndicesFromVec(F32(), place)); }
  HWY_INLINE VF after(VI place) const { return hn::TableLookupLanes(high, hn::IndicesFromVec(F32(), place)); }
  VF low, high;
};

// Binary search for the last share that is not above a magnitude.
template <class Shares, class Numbers>
struct ShareRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, const element::Grid& grid) const {
    std::size_t i = begin;
    Numbers rest = numbers.from(begin);
    for (; i + lanes <= end; i += lanes) {
      const VF value = load_floats(values + i);
      const VF y = hn::Min(hn::Abs(position(value, grid)), set(1));
      VI place = hn::Zero(I32());
      for (std::size_t half = count / 2; half > 0; half /= 2) {
        const VI next = hn::Add(place, hn::Set(I32(), static_cast<std::int32_t>(half)));
        place = hn::IfThenElse(hn::RebindMask(I32(), hn::Ge(y, shares.at(next))), next, place);
      }
      const VF low = shares.at(place);
      const VF gap = hn::Sub(shares.after(place), low);
      const VI number = hn::BitCast(I32(), hn::ShiftRight<8>(rest.next()));
      const VF random = hn::Mul(hn::ConvertTo(F32(), number), set(0x1p-24F));
      const auto up = hn::RebindMask(I32(), hn::Gt(hn::Div(hn::Sub(y, low), gap), random));
      const VI level = hn::Sub(place, hn::VecFromMask(I32(), up));
      const VI minus = hn::And(hn::BroadcastSignBit(hn::BitCast(I32(), value)),
                               hn::VecFromMask(I32(), hn::Gt(level, hn::Zero(I32()))));
      hn::StoreU(hn::DemoteTo(U16(), hn::Add(hn::Add(level, level), minus)), U16(), symbols + i);
    }
    for (; i < end; ++i) {
      const std::uint32_t number = draws.stream.quick(draws.number(i));
      symbols[i] = element::random_share(grid.at(values[i]), all, count, number);
    }
  }
  const float* values;
  Shares shares;
  const float* all;
  std::size_t count;
  const Draws& draws;
  Numbers numbers;
  std::uint16_t* symbols;
};

template <class Shares, class Numbers>
void shares_with(std::span<const float> values, const Norms& norms, std::span<const float> shares, const Draws& draws,
                 std::span<std::uint16_t> symbols) {
  for_blocks(norms, values.size(), NormGrids{norms.floats.data(), 1},
             ShareRun<Shares, Numbers>{values.data(), Shares(shares), shares.data(), shares.size() - 1, draws,
                                       Numbers(draws), symbols.data()});
}

void random_shares(std::span<const float> values, const Norms& norms, std::span<const float> shares, const Draws& draws,
                   std::span<std::uint16_t> symbols) {
  const bool listed = !draws.numbers.empty();
  if (shares.size() <= lanes + 1) {
    listed ? shares_with<SharesInRegister, Listed>(values, norms, shares, draws, symbols)
           : shares_with<SharesInRegister, Consecutive>(values, norms, shares, draws, symbols);
  } else {
    listed ? shares_with<SharesInMemory, Listed>(values, norms, shares, draws, symbols)
           : shares_with<SharesInMemory, Consecutive>(values, norms, shares, draws, symbols);
  }
}

struct TableRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VI symbol = hn::PromoteTo(I32(), hn::LoadU(U16(), symbols + i));
      accumulate(hn::Mul(set(norm), hn::GatherIndex(F32(), table, symbol)), set(scale), out + i);
    }
    for (; i < end; ++i) out[i] += scale * (norm * table[symbols[i]]);
  }
  const std::uint16_t* symbols;
  const float* table;
  float scale;
  float* out;
};

void add_from_table(std::span<const std::uint16_t> symbols, const Norms& norms, std::span<const float> table,
                    float scale, std::span<float> out) {
  for_norms(norms, out.size(), TableRun{symbols.data(), table.data(), scale, out.data()});
}

struct NearestRun {
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, float norm) const {
    const element::Grid grid(norm, 1);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const VF y = position(load_floats(values + i), grid);
      auto below = hn::Zero(I32());
      for (const float middle : nf4_middles) {
        below = hn::Sub(below, hn::BitCast(I32(), hn::VecFromMask(F32(), hn::Gt(y, set(middle)))));
      }
      hn::StoreU(hn::DemoteTo(U16(), below), U16(), symbols + i);
    }
    for (; i < end; ++i) {
      const float y = grid.at(values[i]);
      unsigned below = 0;
      for (const float middle : nf4_middles) below += y > middle ? 1 : 0;
      symbols[i] = static_cast<std::uint16_t>(below);
    }
  }
  const float* values;
  std::uint16_t* symbols;
};

void nearest_nf4(std::span<const float> values, const Norms& norms, std::span<std::uint16_t> symbols) {
  for_norms(norms, values.size(), NearestRun{values.data(), symbols.data()});
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(random_shares);
HWY_EXPORT(add_from_table);

void random_shares(std::span<const float> values, const Norms& norms, std::span<const float> shares, const Draws& draws,
                   std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(random_shares)(values, norms, shares, draws, symbols);
}
void add_from_table(std::span<const std::uint16_t> symbols, const Norms& norms, std::span<const float> table,
                    float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_from_table)(symbols, norms, table, scale, out);
}

HWY_EXPORT(nearest_nf4);

void nearest_nf4(std::span<const float> values, const Norms& norms, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(nearest_nf4)(values, norms, symbols);
}

}  // namespace sotto::kernels
#endif
