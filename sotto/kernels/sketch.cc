#include "sotto/kernels/sketch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/sketch.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

void sketch_places(const ElementStream& stream, std::uint32_t number, std::uint32_t width,
                   std::span<std::uint32_t> places) {
  const VU numbers = hn::Iota(U32(), 0);
  const VU one = set_bits(1);
  std::size_t i = 0;
  for (; i + lanes <= places.size(); i += lanes) {
    const auto at = number + static_cast<std::uint32_t>(i);
    const VU hash = random_numbers(hn::Add(numbers, set_bits(at + stream.k0)), set_bits(stream.k1));
    const VU column = hn::ShiftRight<20>(hn::Mul(hn::ShiftRight<12>(hash), set_bits(width)));
    hn::StoreU(hn::Or(hn::ShiftLeft<1>(column), hn::And(hash, one)), U32(), &places[i]);
  }
  for (; i < places.size(); ++i) {
    places[i] = element::sketch_place(stream.quick(number + static_cast<std::uint32_t>(i)), width);
  }
}

using Hashes = hn::CappedTag<std::uint64_t, 8>;
using Places = hn::Rebind<std::int64_t, Hashes>;
using Classes = hn::Rebind<std::uint16_t, Hashes>;
using Halves = hn::Repartition<std::uint32_t, Hashes>;
using Hash = hn::Vec<Hashes>;
constexpr std::size_t at_once = hn::MaxLanes(Hashes());

HWY_INLINE Hash set_hash(std::uint64_t value) { return hn::Set(Hashes(), value); }

// place_of() for the lower 32 bits of each lane of `bits` and `places`; the upper 32 bits are ignored.
HWY_INLINE Hash places_of(Hash bits, Hash places) {
  return hn::ShiftRight<32>(hn::MulEven(hn::BitCast(Halves(), bits), hn::BitCast(Halves(), places)));
}

// Finds the cells of two rows: cells[j] = cell in the first row | cell in the second row << 32. `shapes` has, for each
// class, first cell << 32 | columns.
void find_cells(std::span<const std::uint16_t> classes, std::span<const std::uint64_t> shapes, std::uint64_t first_key,
                std::uint64_t seed, std::span<std::uint64_t> cells) {
  constexpr std::uint64_t step = 0x9E3779B97F4A7C15ULL;  // the loop below computes hash64()
  Hash keys = hn::Add(set_hash(seed + (first_key + 1) * step), hn::Mul(hn::Iota(Hashes(), 0), set_hash(step)));
  std::size_t j = 0;
  for (; j + at_once <= classes.size(); j += at_once) {
    Hash h = keys;
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<30>(h)), set_hash(0xBF58476D1CE4E5B9ULL));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<27>(h)), set_hash(0x94D049BB133111EBULL));
    h = hn::Xor(h, hn::ShiftRight<31>(h));
    const auto narrow = hn::PromoteTo(hn::Rebind<std::uint32_t, Hashes>(), hn::LoadU(Classes(), &classes[j]));
    const auto its = hn::PromoteTo(Hashes(), narrow);
    const Hash shape = hn::GatherIndex(Hashes(), shapes.data(), hn::BitCast(Places(), its));
    const Hash first = hn::Add(hn::ShiftRight<32>(shape), places_of(h, shape));
    const Hash second = hn::Add(hn::Add(hn::ShiftRight<32>(shape), hn::And(shape, set_hash(0xFFFFFFFFU))),
                                places_of(hn::ShiftRight<32>(h), shape));
    hn::StoreU(hn::Or(first, hn::ShiftLeft<32>(second)), Hashes(), &cells[j]);
    keys = hn::Add(keys, set_hash(at_once * step));
  }
  for (; j < classes.size(); ++j) {
    const std::uint64_t hash = hash64(first_key + j, seed);
    const std::uint64_t shape = shapes[classes[j]];
    const std::uint64_t columns = shape & 0xFFFFFFFFU;
    const std::uint64_t first = (shape >> 32) + place_of(static_cast<std::uint32_t>(hash), columns);
    const std::uint64_t second = (shape >> 32) + columns + place_of(static_cast<std::uint32_t>(hash >> 32), columns);
    cells[j] = first | second << 32;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

namespace {

float with_sign(float value, std::uint32_t place) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (place << 31));
}

}  // namespace

HWY_EXPORT(sketch_places);

void sketch_places(const ElementStream& stream, std::uint32_t number, std::uint32_t width,
                   std::span<std::uint32_t> places) {
  HWY_DYNAMIC_DISPATCH(sketch_places)(stream, number, width, places);
}

void add_signed(std::span<const float> values, std::span<const std::uint32_t> places, float* cells) {
  for (std::size_t i = 0; i < values.size(); ++i) cells[places[i] >> 1] += with_sign(values[i], places[i]);
}

void read_signed(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = with_sign(cells[places[i] >> 1], places[i]);
}

void add_magnitudes(std::span<const float> values, std::span<const std::uint32_t> places, float* above, float* below) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    float* const cells = std::signbit(values[i]) ? below : above;
    cells[places[i] >> 1] += std::abs(values[i]);
  }
}

void read_cells(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = cells[places[i] >> 1];
}

// Like bubble sort: each pass moves the largest of the remaining floats to the last row, until the middle row is right.
void median_of_rows(std::span<float> rows, std::size_t count, std::span<float> out) {
  const std::size_t n = out.size();
  for (std::size_t last = count; last > count / 2; --last) {
    for (std::size_t r = 0; r + 1 < last; ++r) {
      float* a = &rows[r * n];
      float* b = a + n;
      for (std::size_t i = 0; i < n; ++i) {
        const float low = b[i] < a[i] ? b[i] : a[i];
        const float high = b[i] < a[i] ? a[i] : b[i];
        a[i] = low;
        b[i] = high;
      }
    }
  }
  std::copy_n(&rows[count / 2 * n], n, out.begin());
}

void least_of_rows(std::span<const float> rows, std::size_t count, std::span<float> out) {
  const std::size_t n = out.size();
  std::copy_n(rows.begin(), n, out.begin());
  for (std::size_t r = 1; r < count; ++r) {
    const float* row = &rows[r * n];
    for (std::size_t i = 0; i < n; ++i) out[i] = row[i] < out[i] ? row[i] : out[i];
  }
}

HWY_EXPORT(find_cells);

namespace {

constexpr std::size_t chunk = 1024;  // keys that are handled together

// Calls visit(begin, cells, rows) for each chunk of keys and pair of rows: `cells` as find_cells() writes them, `rows`
// the number of rows in the pair, 1 or 2.
template <class Visit>
void visit_cells(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key, Visit visit) {
  std::array<std::uint64_t, MinMaxCells::most_classes> shapes;
  std::array<std::uint64_t, chunk> room;
  for (unsigned r = 0; r < at.rows; r += 2) {
    for (std::size_t c = 0; c < shapes.size(); ++c) {
      shapes[c] = (std::uint64_t{at.first[c]} + r * at.columns[c]) << 32 | at.columns[c];
    }
    for (std::size_t begin = 0; begin < classes.size(); begin += chunk) {
      const auto its = classes.subspan(begin, std::min(chunk, classes.size() - begin));
      const auto cells = std::span(room).first(its.size());
      HWY_DYNAMIC_DISPATCH(find_cells)(its, shapes, first_key + begin, r / 2, cells);
      visit(begin, std::span<const std::uint64_t>(cells), std::min(at.rows - r, 2U));
    }
  }
}

}  // namespace

void insert_least(std::span<const std::uint16_t> classes, std::span<const std::uint16_t> levels, const MinMaxCells& at,
                  std::uint64_t first_key, std::uint16_t* cells) {
  visit_cells(classes, at, first_key, [&](std::size_t begin, std::span<const std::uint64_t> places, unsigned rows) {
    for (std::size_t j = 0; j < places.size(); ++j) {
      const std::uint16_t level = levels[begin + j];
      std::uint16_t& cell = cells[places[j] & 0xFFFFFFFFU];
      cell = std::min(cell, level);
      if (rows == 1) continue;
      std::uint16_t& second = cells[places[j] >> 32];
      second = std::min(second, level);
    }
  });
}

void find_largest(std::span<const std::uint16_t> classes, const MinMaxCells& at, std::uint64_t first_key,
                  const std::uint16_t* cells, std::span<std::uint16_t> levels) {
  std::fill(levels.begin(), levels.end(), std::uint16_t{0});
  visit_cells(classes, at, first_key, [&](std::size_t begin, std::span<const std::uint64_t> places, unsigned rows) {
    for (std::size_t j = 0; j < places.size(); ++j) {
      const std::uint16_t first = cells[places[j] & 0xFFFFFFFFU];
      const std::uint16_t second = rows == 1 ? std::uint16_t{0} : cells[places[j] >> 32];
      levels[begin + j] = std::max(levels[begin + j], std::max(first, second));
    }
  });
}

}  // namespace sotto::kernels
#endif
