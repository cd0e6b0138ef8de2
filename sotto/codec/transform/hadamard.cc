#include "sotto/codec/transform/hadamard.h"

#include <algorithm>
#include <cmath>

#include "sotto/codec/transform/row_walk.h"
#include "sotto/codec/transform/signed_hadamard.h"
#include "sotto/kernels/fourier.h"

namespace sotto {
namespace {

constexpr std::size_t lanes = kernels::fourier_lanes;

}  // namespace

Hadamard::Hadamard(const HadamardOptions& options) : ChunkTransform(options), lanes_(chunk() * lanes) {}

void Hadamard::forward(const Layout&, const Piece& piece, const Streams&, std::span<const float> values,
                       std::span<float> /*energies: the rows*/, std::span<float> rows) {
  for_batches(values.size(), chunk(), lanes, [&](std::size_t begin, std::size_t size, std::size_t count) {
    signed_hadamard(values.subspan(begin, count * size), piece.first + begin, size, lanes_);
    for (std::size_t l = 0; l < count; ++l) {
      const std::size_t at = begin + l * size;
      for (std::size_t k = 0; k < size; ++k) rows[at + k] = lanes_[k * lanes + l];
    }
  });
}

void Hadamard::add_inverse(const Layout&, const Piece& piece, std::span<const std::uint32_t> selected,
                           std::span<const float> rows, float scale, std::span<float> out) {
  RowWalk walk(selected, rows, 1);
  for_batches(out.size(), chunk(), lanes, [&](std::size_t begin, std::size_t size, std::size_t count) {
    const float factor = 1 / std::sqrt(static_cast<float>(size));
    std::ranges::fill(lanes_, 0.0F);
    const bool any = walk.take(begin + count * size, [&](std::size_t atom, const float* row) {
      const std::size_t l = (atom - begin) / size;
      lanes_[(atom - begin - l * size) * lanes + l] = *row * factor;
    });
    if (!any) return;
    kernels::hadamard(lanes_, size);
    for (std::size_t l = 0; l < count; ++l) {
      const std::size_t at = begin + l * size;
      for (std::size_t k = 0; k < size; ++k) {
        out[at + k] += scale * with_fixed_sign(lanes_[k * lanes + l], piece.first + at + k);
      }
    }
  });
}

}  // namespace sotto
