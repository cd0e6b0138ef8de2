#include "sotto/codec/transform/hadamard.h"

#include <cmath>

#include "sotto/kernels/fourier.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

constexpr std::size_t lanes = kernels::fourier_lanes;

// Copies values, multiplied by `factor` and a random sign. The sign depends only on the element's number within the
// segment (`number` for the first value), so messages need not contain it. Random signs spread large values over all
// coefficients of a Hadamard transform.
void with_fixed_signs(std::span<const float> values, std::size_t number, float factor, std::span<float> out) {
  constexpr ElementStream signs{0x736f7474U, 0x6f736967U};  // arbitrary, but part of the format
  kernels::random_signs(values, signs, static_cast<std::uint32_t>(number), factor, out);
}

}  // namespace

Hadamard::Hadamard(const HadamardOptions& options)
    : ChunkTransform(options), chunks_(chunk() * lanes), lanes_(chunk() * lanes) {}

void Hadamard::forward(const Layout&, const Piece& piece, const Streams&, std::span<const float> values,
                       std::span<float> /*energies: the rows*/, std::span<float> rows) {
  for_batches(values.size(), chunk(), lanes, [&](std::size_t begin, std::size_t size, std::size_t count) {
    const auto chunks = std::span(chunks_).first(count * size);
    const float factor = 1 / std::sqrt(static_cast<float>(size));
    with_fixed_signs(values.subspan(begin, count * size), piece.first + begin, factor, chunks);
    kernels::to_lanes(chunks, size, lanes_);
    kernels::hadamard(lanes_, size);
    kernels::from_lanes(lanes_, size, rows.subspan(begin, count * size));
  });
}

void Hadamard::add_inverse(const Layout&, const Piece& piece, std::span<const std::uint32_t> selected,
                           std::span<const float> rows, float scale, std::span<float> out) {
  RowWalk walk(selected, rows, 1);
  for_batches(out.size(), chunk(), lanes, [&](std::size_t begin, std::size_t size, std::size_t count) {
    if (const auto all = walk.take_all(begin, begin + count * size); !all.empty()) {
      kernels::to_lanes(all, size, lanes_);
    } else {
      std::ranges::fill(lanes_, 0.0F);
      const bool any = walk.take(begin + count * size, [&](std::size_t atom, const float* row) {
        const std::size_t l = (atom - begin) / size;
        lanes_[(atom - begin - l * size) * lanes + l] = *row;
      });
      if (!any) return;
    }
    kernels::scale(1 / std::sqrt(static_cast<float>(size)), std::span(lanes_).first(size * lanes));
    kernels::hadamard(lanes_, size);
    const auto found = std::span(chunks_).first(count * size);
    kernels::from_lanes(lanes_, size, found);
    with_fixed_signs(found, piece.first + begin, 1, found);
    kernels::axpy(scale, found, out.subspan(begin, count * size));
  });
}

}  // namespace sotto
