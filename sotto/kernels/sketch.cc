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

}  // namespace sotto::kernels
#endif
