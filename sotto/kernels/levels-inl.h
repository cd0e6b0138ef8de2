// Rounding vectors to levels, for the kernels of levels.h and its like. Included once for every SIMD target.
#if defined(SOTTO_KERNELS_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOTTO_KERNELS_LEVELS_INL_H_
#undef SOTTO_KERNELS_LEVELS_INL_H_
#else
#define SOTTO_KERNELS_LEVELS_INL_H_
#endif

#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/run.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// These functions mirror element.h. nearest_level() and random_level() return the level modulo 2^16 in the lowest 16
// bits of each lane; the other bits are arbitrary.

HWY_INLINE VF position(VF value, const element::Grid& grid) {
  return hn::Mul(hn::Mul(value, set(grid.up)), set(grid.factor));
}

HWY_INLINE VF position(VF value, const element::Interval& grid) {
  return hn::Mul(hn::Sub(hn::Mul(value, set(grid.up)), set(grid.begin)), set(grid.factor));
}

// A grid whose `up` is 1, as for all but tiny and huge norms. This saves a multiplication.
template <class Grid>
struct Moderate : Grid {};

HWY_INLINE VF position(VF value, const Moderate<element::Grid>& grid) { return hn::Mul(value, set(grid.factor)); }

HWY_INLINE VF position(VF value, const Moderate<element::Interval>& grid) {
  return hn::Mul(hn::Sub(value, set(grid.begin)), set(grid.factor));
}

template <class Grid>
HWY_INLINE VU nearest_level(VF value, const Grid& grid) {
  return hn::BitCast(U32(), hn::Add(position(value, grid), set(element::rounder)));
}

template <class Grid>
HWY_INLINE VU random_level(VF value, const Grid& grid, VU number) {
  // The product is exact, so fusing it with the addition changes nothing.
  const VF dither = hn::ConvertTo(F32(), hn::BitCast(I32(), number));
  const VF moved = hn::MulAdd(dither, set(0x1p-32F), position(value, grid));
  const VF inside = hn::Max(hn::Min(moved, set(grid.top)), set(grid.least));
  return hn::BitCast(U32(), hn::Add(inside, set(element::rounder)));
}

HWY_INLINE VF from_level(VF level, float norm, float step) { return hn::Mul(set(norm), hn::Mul(level, set(step))); }

// The random numbers of a run: consecutive numbers of the stream, or listed ones (run.h). from(j) starts at value j of
// the run, and next() gives the numbers of the next `lanes` values.
class Consecutive {
 public:
  explicit Consecutive(const Draws& draws)
      : next_(hn::Add(set_bits(draws.offset + draws.stream.k0), hn::Iota(U32(), 0))), k1_(set_bits(draws.stream.k1)) {}
  HWY_INLINE Consecutive from(std::size_t j) const {
    Consecutive rest = *this;
    rest.next_ = hn::Add(next_, set_bits(static_cast<std::uint32_t>(j)));
    return rest;
  }
  HWY_INLINE VU next() {
    const VU numbers = random_numbers(next_, k1_);
    next_ = hn::Add(next_, set_bits(lanes));
    return numbers;
  }

 private:
  VU next_, k1_;
};

class Listed {
 public:
  explicit Listed(const Draws& draws)
      : first_(set_bits(draws.offset + draws.stream.k0)), k1_(set_bits(draws.stream.k1)), next_(draws.numbers.data()) {}
  HWY_INLINE Listed from(std::size_t j) const {
    Listed rest = *this;
    rest.next_ += j;
    return rest;
  }
  HWY_INLINE VU next() {
    const VU numbers = random_numbers(hn::Add(first_, hn::LoadU(U32(), next_)), k1_);
    next_ += lanes;
    return numbers;
  }

 private:
  VU first_, k1_;
  const std::uint32_t* next_;
};

// How values become levels. from(i) starts at value i of a run; each next() rounds the next `lanes` values. one()
// rounds only value i.
struct Nearest {
  Nearest from(std::size_t) const { return {}; }
  template <class Grid>
  HWY_INLINE VU next(VF value, const Grid& grid) const {
    return nearest_level(value, grid);
  }
  template <class Grid>
  std::int32_t one(float value, const Grid& grid, std::size_t) const {
    return element::nearest_level(value, grid);
  }
};

template <class Numbers>
struct AtRandom {
  explicit AtRandom(const Draws& from) : draws(from), numbers(from) {}
  struct Vectors {
    template <class Grid>
    HWY_INLINE VU next(VF value, const Grid& grid) {
      return random_level(value, grid, numbers.next());
    }
    Numbers numbers;
  };
  HWY_INLINE Vectors from(std::size_t i) const { return {numbers.from(i)}; }
  template <class Grid>
  std::int32_t one(float value, const Grid& grid, std::size_t i) const {
    return element::random_level(value, grid, draws.stream.quick(draws.number(i)));
  }
  const Draws& draws;
  Numbers numbers;
};

// Stores levels as bytes.
struct Bytes {
  HWY_INLINE void vector(VU levels, std::size_t i) const { store_bytes(U8(), hn::TruncateTo(U8(), levels), out + i); }
  void one(std::int32_t level, std::size_t i) const { out[i] = static_cast<std::byte>(level); }
  std::byte* out;
};

// What the values of block number b share: its norm (PlainNorms), or a mapping to levels. The mapping is made from the
// norm (NormGrids), or from the two ends (Intervals).
struct PlainNorms {
  HWY_INLINE float operator()(std::size_t b) const { return load<float>(floats, b); }
  const std::byte* floats;
};

struct NormGrids {
  HWY_INLINE element::Grid operator()(std::size_t b) const { return {load<float>(floats, b), top}; }
  const std::byte* floats;
  unsigned top;
};

struct Intervals {
  HWY_INLINE element::Interval operator()(std::size_t b) const {
    return {load<float>(floats, 2 * b), load<float>(floats, 2 * b + 1)};
  }
  const std::byte* floats;
};

// Cuts a run of `count` values at the blocks, and calls run(begin, end, common(b)) for the stretch of each block b.
template <class Common, class Run>
HWY_INLINE void for_blocks(const Norms& norms, std::size_t count, const Common& common, const Run& run) {
  std::size_t b = 0;
  for (std::size_t begin = 0, left = norms.block - norms.first; begin < count; left = norms.block, ++b) {
    const std::size_t end = left < count - begin ? begin + left : count;
    run(begin, end, common(b));
    begin = end;
  }
}

template <class Run>
HWY_INLINE void for_norms(const Norms& norms, std::size_t count, const Run& run) {
  for_blocks(norms, count, PlainNorms{norms.floats.data()}, run);
}

// Rounds all values, and passes the levels to store.vector(levels, i) and store.one(level, i).
template <class Rounding, class Store>
struct RoundRun {
  template <class Grid>
  HWY_INLINE void operator()(std::size_t begin, std::size_t end, const Grid& grid) const {
    std::size_t i = grid.up == 1 ? vectors(begin, end, Moderate<Grid>{grid}) : vectors(begin, end, grid);
    for (; i < end; ++i) store.one(rounding.one(values[i], grid, i), i);
  }
  // Returns the first value that is left.
  template <class Grid>
  HWY_INLINE std::size_t vectors(std::size_t i, std::size_t end, const Grid& grid) const {
    auto rest = rounding.from(i);
    for (; i + lanes <= end; i += lanes) {
      prefetch_ahead(values + i);
      store.vector(rest.next(load_floats(values + i), grid), i);
    }
    return i;
  }
  const float* values;
  const Rounding& rounding;
  Store store;
};

template <class Grids, class Store>
void round_nearest(std::span<const float> values, const Norms& norms, Grids grids, Store store) {
  const Nearest rounding;
  for_blocks(norms, values.size(), grids, RoundRun<Nearest, Store>{values.data(), rounding, store});
}

template <class Numbers, class Grids, class Store>
void round_with(std::span<const float> values, const Norms& norms, Grids grids, const Draws& draws, Store store) {
  const AtRandom<Numbers> rounding(draws);
  for_blocks(norms, values.size(), grids, RoundRun<AtRandom<Numbers>, Store>{values.data(), rounding, store});
}

template <class Grids, class Store>
void round_at_random(std::span<const float> values, const Norms& norms, Grids grids, const Draws& draws, Store store) {
  if (draws.numbers.empty()) {
    round_with<Consecutive>(values, norms, grids, draws, store);
  } else {
    round_with<Listed>(values, norms, grids, draws, store);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#endif
