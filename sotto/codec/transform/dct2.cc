#include "sotto/codec/transform/dct2.h"

#include <cmath>
#include <numbers>

#include "sotto/codec/transform/chunks.h"
#include "sotto/codec/transform/svd.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

std::size_t largest_divisor(std::size_t n, std::size_t most) {
  std::size_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

Dct2::Tiles Dct2::tiles_of(const Layout& layout, const Piece& piece) const {
  const MatrixShape shape = matrix_shape(layout.segments()[piece.segment].shape);
  if (piece.range.size() != shape.rows * shape.cols) throw std::logic_error("dct2: a part cuts through a matrix");
  const auto side = static_cast<std::size_t>(options_.side);
  return {shape.cols, largest_divisor(shape.rows, side), largest_divisor(shape.cols, side)};
}

Atoms Dct2::atoms(const Layout& layout, const Piece& piece) const {
  return {.count = piece.range.size(), .chunk = tiles_of(layout, piece).size()};
}

const Dct2::Basis& Dct2::basis(std::size_t size) {
  Basis& basis = bases_[size];
  if (!basis.rows.empty()) return basis;
  basis.rows.resize(size * size);
  basis.columns.resize(size * size);
  const auto n = static_cast<double>(size);
  for (std::size_t k = 0; k < size; ++k) {
    for (std::size_t j = 0; j < size; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(k * (2 * j + 1)) / (2 * n);
      const auto value = static_cast<float>(std::sqrt((k == 0 ? 1 : 2) / n) * std::cos(angle));
      basis.rows[k * size + j] = value;
      basis.columns[j * size + k] = value;
    }
  }
  return basis;
}

// Computes H T W^T for each tile T, with the bases H and W.
void Dct2::forward(const Layout& layout, const Piece& piece, const Streams&, std::span<const float> values,
                   std::span<float> /*energies: the rows*/, std::span<float> rows) {
  const Tiles tiles = tiles_of(layout, piece);
  const std::size_t h = tiles.height;
  const std::size_t w = tiles.width;
  const Basis& down = basis(h);
  const Basis& across = basis(w);
  const auto half = half_.room(tiles.size());
  for (std::size_t at = 0; at < values.size(); at += tiles.size()) {
    const float* tile = &values[tiles.begin(at / tiles.size())];
    kernels::multiply_transposed(across.columns, w, w, {tile, h, tiles.cols}, {half.data(), h, w});
    kernels::multiply_transposed(half, h, w, {down.rows.data(), h, h}, {&rows[at], h, w});
  }
}

// Computes H^T C W for each tile of coefficients C.
void Dct2::add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                       std::span<const float> rows, float scale, std::span<float> out) {
  const Tiles tiles = tiles_of(layout, piece);
  const std::size_t h = tiles.height;
  const std::size_t w = tiles.width;
  const Basis& down = basis(h);
  const Basis& across = basis(w);
  const auto half = half_.room(tiles.size());
  const auto tile = tile_.room(tiles.size());
  RowWalk walk(selected, rows, 1);
  for (std::size_t at = 0; at < out.size(); at += tiles.size()) {
    std::ranges::fill(tile, 0.0F);
    const auto put = [&](std::size_t atom, const float* row) { tile[atom - at] = *row; };
    if (!walk.take(at + tiles.size(), put)) continue;
    kernels::multiply_transposed(tile, h, w, {down.columns.data(), h, h}, {half.data(), h, w});
    kernels::multiply_transposed(across.rows, w, w, {half.data(), h, w}, {tile.data(), h, w});
    const std::size_t begin = tiles.begin(at / tiles.size());
    for (std::size_t line = 0; line < h; ++line) {
      kernels::axpy(scale, tile.subspan(line * w, w), out.subspan(begin + line * tiles.cols, w));
    }
  }
}

}  // namespace sotto
