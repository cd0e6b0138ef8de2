#include "sotto/kernels/gram.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/gram.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>

#include "sotto/kernels/lane_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t vector_width = hn::MaxLanes(F64());
constexpr std::size_t vectors = gram_panel / vector_width;
constexpr std::size_t tall = vector_width == gram_panel ? gram_panel : 4;  // rows whose sums fit into the registers

// Adds sums(i, j) of `tall` rows of one panel and all rows of another. Products are exact, so fused multiply-add has
// the same result.
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
  double tile[gram_panel * gram_panel];
  for (std::size_t other = 0; other <= panel; ++other) {
    const std::size_t column = other * gram_panel;
    const double* right = packed + column * gram_depth;
    const std::size_t height = std::min(gram_panel, rows - first);
    const std::size_t width = std::min(gram_panel, rows - column);
    const bool whole = height == gram_panel && width == gram_panel;
    double* out = whole ? gram + first * rows + column : tile;
    const std::size_t stride = whole ? rows : gram_panel;
    for (std::size_t i = 0; !whole && i < height; ++i) {
      std::copy_n(gram + (first + i) * rows + column, width, tile + i * gram_panel);
    }
    for (std::size_t i = 0; i < gram_panel; i += tall) add_tile(left + i, right, depth, out + i * stride, stride);
    for (std::size_t i = 0; !whole && i < height; ++i) {
      std::copy_n(tile + i * gram_panel, width, gram + (first + i) * rows + column);
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
