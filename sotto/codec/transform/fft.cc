#include "sotto/codec/transform/fft.h"

#include <cmath>

#include "sotto/codec/transform/row_walk.h"

namespace sotto {
namespace {

std::size_t frequencies(std::size_t size) { return size / 2 + 1; }

// The factor of coefficient k in the orthonormal transform.
float weight(std::size_t k, std::size_t size) {
  const bool alone = k == 0 || 2 * k == size;
  return std::sqrt((alone ? 1.0F : 2.0F) / static_cast<float>(size));
}

}  // namespace

Fft::Fft(const FftOptions& options) : ChunkTransform(options), spectrum_(chunk()) {}

Atoms Fft::atoms(const Layout&, const Piece& piece) const {
  std::size_t count = 0;
  for_chunks(piece.range.size(), chunk(),
             [&](std::size_t, std::size_t size, std::size_t chunks) { count += chunks * frequencies(size); });
  const std::size_t its_atoms = frequencies(chunk());
  return {.count = count, .width = 2, .first = piece.first / chunk() * its_atoms, .chunk = its_atoms};
}

void Fft::forward(const Layout&, const Piece&, const Streams&, std::span<const float> values, std::span<float> energies,
                  std::span<float> rows) {
  std::size_t atom = 0;
  for_batches(values.size(), chunk(), spectrum_.batch(), [&](std::size_t begin, std::size_t size, std::size_t count) {
    spectrum_.read(values.subspan(begin, count * size), size);
    spectrum_.transform(size);
    const float alone = weight(0, size), pair = weight(1, size);
    for (std::size_t c = 0; c < count; ++c) {
      for (std::size_t k = 0; k < frequencies(size); ++k, ++atom) {
        const float factor = k == 0 || 2 * k == size ? alone : pair;
        const float re = factor * spectrum_.re(c, k);
        const float im = factor * spectrum_.im(c, k);
        rows[2 * atom] = re;
        rows[2 * atom + 1] = im;
        energies[atom] = static_cast<float>(std::sqrt(static_cast<double>(re) * re + static_cast<double>(im) * im));
      }
    }
  });
}

void Fft::add_inverse(const Layout&, const Piece&, std::span<const std::uint32_t> selected, std::span<const float> rows,
                      float scale, std::span<float> out) {
  RowWalk walk(selected, rows, 2);
  std::size_t first = 0;  // number of the first atom of the batch
  for_batches(out.size(), chunk(), spectrum_.batch(), [&](std::size_t begin, std::size_t size, std::size_t count) {
    const std::size_t end = first + count * frequencies(size);
    spectrum_.clear(size);
    const bool any = walk.take(end, [&](std::size_t atom, const float* row) {
      const std::size_t c = (atom - first) / frequencies(size);
      const std::size_t k = (atom - first) % frequencies(size);
      const float factor = 1 / (static_cast<float>(size) * weight(k, size));
      spectrum_.re(c, k) = row[0] * factor;
      spectrum_.im(c, k) = row[1] * factor;
    });
    first = end;
    if (!any) return;
    spectrum_.invert(size);
    spectrum_.add(scale, size, out.subspan(begin, count * size));
  });
}

}  // namespace sotto
