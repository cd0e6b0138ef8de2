#include "sotto/kernels/matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/matrix.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <cmath>

#include "sotto/kernels/lane_sum-inl.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t together = 4;  // vectors that are handled in one pass over the matrix
constexpr std::size_t tile = 1024;   // columns whose sums stay in the L1 cache

double dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t width = hn::MaxLanes(F64());
  const hn::Rebind<float, F64> half;
  VD sums[sum_lanes / width] = {};
  const std::size_t whole = a.size() / sum_lanes * sum_lanes;
  for (std::size_t i = 0; i < whole; i += sum_lanes) {
    for (std::size_t j = 0; j < sum_lanes / width; ++j) {
      const VD x = hn::PromoteTo(F64(), hn::LoadU(half, &a[i + j * width]));
      const VD y = hn::PromoteTo(F64(), hn::LoadU(half, &b[i + j * width]));
      sums[j] = hn::Add(sums[j], hn::Mul(x, y));
    }
  }
  double sum[sum_lanes];
  for (std::size_t j = 0; j < sum_lanes / width; ++j) hn::StoreU(sums[j], F64(), sum + j * width);
  for (std::size_t i = whole; i < a.size(); ++i) sum[i - whole] += static_cast<double>(a[i]) * b[i];
  return fold(sum);
}

// out[v] = row . vectors[v]
template <std::size_t N>
void dots(const float* row, const float* const* vectors, std::size_t length, float* out) {
  constexpr std::size_t parts = sum_lanes / lanes;
  VF sums[N][parts];
  for (auto& its_sums : sums) {
    for (VF& sum : its_sums) sum = hn::Zero(F32());
  }
  const std::size_t whole = length / sum_lanes * sum_lanes;
  for (std::size_t i = 0; i < whole; i += sum_lanes) {
    for (std::size_t p = 0; p < parts; ++p) {
      const VF x = load_floats(row + i + p * lanes);
      for (std::size_t v = 0; v < N; ++v) {
        sums[v][p] = hn::Add(sums[v][p], hn::Mul(x, load_floats(vectors[v] + i + p * lanes)));
      }
    }
  }
  for (std::size_t v = 0; v < N; ++v) {
    float sum[sum_lanes];
    for (std::size_t p = 0; p < parts; ++p) hn::StoreU(sums[v][p], F32(), sum + p * lanes);
    for (std::size_t i = whole; i < length; ++i) sum[i - whole] += row[i] * vectors[v][i];
    out[v] = fold(sum);
  }
}

void dots(std::size_t count, const float* row, const float* const* vectors, std::size_t length, float* out) {
  switch (count) {
    case 1: return dots<1>(row, vectors, length, out);
    case 2: return dots<2>(row, vectors, length, out);
    case 3: return dots<3>(row, vectors, length, out);
    default: return dots<4>(row, vectors, length, out);
  }
}

// out += sum over v of factors[v] * vectors[v], in ascending order of v.
template <std::size_t N>
void add_combination(const float* factors, const float* const* vectors, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    VF value = load_floats(&out[i]);
    for (std::size_t v = 0; v < N; ++v) value = hn::Add(value, hn::Mul(set(factors[v]), load_floats(vectors[v] + i)));
    hn::StoreU(value, F32(), &out[i]);
  }
  for (; i < out.size(); ++i) {
    for (std::size_t v = 0; v < N; ++v) out[i] += factors[v] * vectors[v][i];
  }
}

void add_combination(std::size_t count, const float* factors, const float* const* vectors, std::span<float> out) {
  switch (count) {
    case 1: return add_combination<1>(factors, vectors, out);
    case 2: return add_combination<2>(factors, vectors, out);
    case 3: return add_combination<3>(factors, vectors, out);
    default: return add_combination<4>(factors, vectors, out);
  }
}

void multiply(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in, Vectors out) {
  const float* vectors[together] = {};
  float sums[together] = {};
  for (std::size_t k = 0; k < in.count; k += together) {
    const std::size_t count = std::min(together, in.count - k);
    for (std::size_t v = 0; v < count; ++v) vectors[v] = in.data + (k + v) * in.stride;
    for (std::size_t row = 0; row < rows; ++row) {
      dots(count, matrix.data() + row * cols, vectors, cols, sums);
      for (std::size_t v = 0; v < count; ++v) out.data[(k + v) * out.stride + row] = sums[v];
    }
  }
}

void multiply_transposed(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in,
                         Vectors out) {
  const float* lines[together] = {};
  float factors[together] = {};
  for (std::size_t begin = 0; begin < cols; begin += tile) {
    const std::size_t width = std::min(tile, cols - begin);
    for (std::size_t k = 0; k < out.count; ++k) std::ranges::fill(out.at(k, cols).subspan(begin, width), 0.0F);
    for (std::size_t row = 0; row < rows; row += together) {
      const std::size_t count = std::min(together, rows - row);
      for (std::size_t v = 0; v < count; ++v) lines[v] = matrix.data() + (row + v) * cols + begin;
      for (std::size_t k = 0; k < out.count; ++k) {
        for (std::size_t v = 0; v < count; ++v) factors[v] = in.data[k * in.stride + row + v];
        add_combination(count, factors, lines, out.at(k, cols).subspan(begin, width));
      }
    }
  }
}

void add_outer(float scale, ConstVectors left, ConstVectors right, std::size_t rows, std::size_t cols,
               std::span<float> matrix) {
  const float* vectors[together] = {};
  float factors[together] = {};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < left.count; k += together) {
      const std::size_t count = std::min(together, left.count - k);
      for (std::size_t v = 0; v < count; ++v) {
        vectors[v] = right.data + (k + v) * right.stride;
        factors[v] = scale * left.data[(k + v) * left.stride + row];
      }
      add_combination(count, factors, vectors, matrix.subspan(row * cols, cols));
    }
  }
}

constexpr std::size_t vector_width = hn::MaxLanes(F64());
constexpr std::size_t vectors = gram_panel / vector_width;
constexpr std::size_t tall = vector_width == gram_panel ? gram_panel : 4;  // rows whose sums fit into the registers

// Adds the products of `tall` rows of one panel with all rows of another. Products of floats are exact, so fused
// multiply-add has the same result.
HWY_INLINE void add_tile(const double* left, const double* right, std::size_t depth, double* out, std::size_t stride) {
  VD sums[tall][vectors];
  for (std::size_t i = 0; i < tall; ++i) {
    for (std::size_t v = 0; v < vectors; ++v) sums[i][v] = hn::LoadU(F64(), out + i * stride + v * vector_width);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    VD columns[vectors];
    for (std::size_t v = 0; v < vectors; ++v) columns[v] = hn::LoadU(F64(), right + k * gram_panel + v * vector_width);
    for (std::size_t i = 0; i < tall; ++i) {
      const VD row = hn::Set(F64(), left[k * gram_panel + i]);
      for (std::size_t v = 0; v < vectors; ++v) sums[i][v] = hn::MulAdd(row, columns[v], sums[i][v]);
    }
  }
  for (std::size_t i = 0; i < tall; ++i) {
    for (std::size_t v = 0; v < vectors; ++v) hn::StoreU(sums[i][v], F64(), out + i * stride + v * vector_width);
  }
}

void add_gram(const double* packed, std::size_t rows, std::size_t panel, std::size_t depth, double* gram) {
  const std::size_t first = panel * gram_panel;
  const double* left = packed + first * gram_depth;
  double corner[gram_panel * gram_panel];
  for (std::size_t other = 0; other <= panel; ++other) {
    const std::size_t column = other * gram_panel;
    const double* right = packed + column * gram_depth;
    const std::size_t height = std::min(gram_panel, rows - first);
    const std::size_t width = std::min(gram_panel, rows - column);
    const bool whole = height == gram_panel && width == gram_panel;
    double* out = whole ? gram + first * rows + column : corner;
    const std::size_t stride = whole ? rows : gram_panel;
    for (std::size_t i = 0; !whole && i < height; ++i) {
      std::copy_n(gram + (first + i) * rows + column, width, corner + i * gram_panel);
    }
    for (std::size_t i = 0; i < gram_panel; i += tall) add_tile(left + i, right, depth, out + i * stride, stride);
    for (std::size_t i = 0; !whole && i < height; ++i) {
      std::copy_n(corner + i * gram_panel, width, gram + (first + i) * rows + column);
    }
  }
}

void pack_gram(const GramInput& in, std::size_t panel, std::size_t begin, std::size_t depth, double* packed) {
  const std::size_t first = panel * gram_panel;
  const std::size_t height = std::min(gram_panel, in.rows - first);
  double* out = packed + first * gram_depth;
  const float* from = in.data + first * in.row_step + begin * in.column_step;
  for (std::size_t k = 0; k < depth; ++k, out += gram_panel, from += in.column_step) {
    for (std::size_t i = 0; i < height; ++i) out[i] = from[i * in.row_step];
    std::fill_n(out + height, gram_panel - height, 0.0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(dot);
HWY_EXPORT(multiply);
HWY_EXPORT(multiply_transposed);
HWY_EXPORT(add_outer);

double dot(std::span<const float> a, std::span<const float> b) { return HWY_DYNAMIC_DISPATCH(dot)(a, b); }
void multiply(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in, Vectors out) {
  HWY_DYNAMIC_DISPATCH(multiply)(matrix, rows, cols, in, out);
}
void multiply_transposed(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in,
                         Vectors out) {
  HWY_DYNAMIC_DISPATCH(multiply_transposed)(matrix, rows, cols, in, out);
}
void add_outer(float scale, ConstVectors left, ConstVectors right, std::size_t rows, std::size_t cols,
               std::span<float> matrix) {
  HWY_DYNAMIC_DISPATCH(add_outer)(scale, left, right, rows, cols, matrix);
}

namespace {

void remove_earlier(Vectors vectors, std::size_t k, std::size_t length) {
  const auto vector = vectors.at(k, length);
  for (std::size_t j = 0; j < k; ++j) {
    const auto earlier = vectors.at(j, length);
    axpy(-static_cast<float>(dot(earlier, vector)), earlier, vector);
  }
}

// Scales the vector to length 1. If almost nothing is left of its earlier length `before`, sets it to zero and returns
// false.
bool normalise(std::span<float> vector, double before) {
  const double norm = std::sqrt(sum_squares(vector));
  if (!(norm > 1e-6 * before) || !std::isfinite(norm)) {
    std::ranges::fill(vector, 0.0F);
    return false;
  }
  for (float& value : vector) value = static_cast<float>(value / norm);
  return true;
}

}  // namespace

void orthonormalise(Vectors vectors, std::size_t length) {
  std::size_t unit = 0;  // the next unit vector to try
  for (std::size_t k = 0; k < vectors.count; ++k) {
    const auto vector = vectors.at(k, length);
    double before = std::sqrt(sum_squares(vector));
    while (true) {
      remove_earlier(vectors, k, length);
      // The second pass removes the components along earlier vectors that rounding left in a short remainder.
      if (normalise(vector, before)) {
        remove_earlier(vectors, k, length);
        if (normalise(vector, 0.5)) break;
      }
      if (unit == length) break;
      vector[unit++] = 1.0F;
      before = 1e3;  // a unit vector must keep a thousandth of its length
    }
  }
}

HWY_EXPORT(add_gram);
HWY_EXPORT(pack_gram);

void add_gram(const double* packed, std::size_t rows, std::size_t panel, std::size_t depth, double* gram) {
  HWY_DYNAMIC_DISPATCH(add_gram)(packed, rows, panel, depth, gram);
}
void pack_gram(const GramInput& in, std::size_t panel, std::size_t begin, std::size_t depth, double* packed) {
  HWY_DYNAMIC_DISPATCH(pack_gram)(in, panel, begin, depth, packed);
}

}  // namespace sotto::kernels
#endif
