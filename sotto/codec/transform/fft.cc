#include "sotto/codec/transform/fft.h"

#include <cmath>
#include <numbers>

#include "sotto/kernels/fourier.h"
#include "sotto/kernels/vector.h"

namespace sotto {

Spectrum::Spectrum(std::size_t largest)
    : re_(largest * lanes),
      im_(largest * lanes),
      coefficient_re_((largest / 2 + 1) * 2 * lanes),
      coefficient_im_((largest / 2 + 1) * 2 * lanes),
      cosines_(std::max<std::size_t>(largest / 2, 1)),
      sines_(std::max<std::size_t>(largest / 2, 1)),
      chunks_(largest * 2 * lanes) {
  static_assert(lanes == kernels::fourier_lanes);
}

void Spectrum::use_tables(std::size_t size) {
  if (tabled_ == size) return;
  tabled_ = size;
  for (std::size_t j = 0; j < size / 2; ++j) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(size);
    cosines_[j] = static_cast<float>(std::cos(angle));
    sines_[j] = static_cast<float>(std::sin(angle));
  }
}

void Spectrum::read(std::span<const float> chunks, std::size_t size, std::span<const std::uint32_t> order) {
  const std::size_t first = std::min(lanes * size, chunks.size());
  kernels::to_lanes(chunks.first(first), size, re_, order);
  kernels::to_lanes(chunks.subspan(first), size, im_, order);
}

void Spectrum::add(float scale, std::size_t size, std::span<float> out, std::span<const std::uint32_t> order) {
  const auto all = std::span(chunks_).first(out.size());
  const std::size_t first = std::min(lanes * size, all.size());
  kernels::from_lanes(re_, size, all.first(first), order);
  kernels::from_lanes(im_, size, all.subspan(first), order);
  kernels::axpy(scale, all, out);
}

void Spectrum::clear(std::size_t size) {
  std::fill_n(coefficient_re_.begin(), (size / 2 + 1) * batch(), 0.0F);
  std::fill_n(coefficient_im_.begin(), (size / 2 + 1) * batch(), 0.0F);
}

// Separates two real chunks, C = A + iB: A_k = (C_k + conj C_-k) / 2 and B_k = (C_k - conj C_-k) / 2i.
void Spectrum::transform(std::size_t size) {
  use_tables(size);
  kernels::fourier(re_, im_, size, cosines_, sines_);
  for (std::size_t k = 0; k <= size / 2; ++k) {
    const float* re_k = &re_[k * lanes];
    const float* im_k = &im_[k * lanes];
    const float* re_m = &re_[(size - k) % size * lanes];
    const float* im_m = &im_[(size - k) % size * lanes];
    float* re = &coefficient_re_[k * batch()];
    float* im = &coefficient_im_[k * batch()];
    for (std::size_t l = 0; l < lanes; ++l) {
      re[l] = 0.5F * (re_k[l] + re_m[l]);
      im[l] = 0.5F * (im_k[l] - im_m[l]);
      re[lanes + l] = 0.5F * (im_k[l] + im_m[l]);
      im[lanes + l] = 0.5F * (re_m[l] - re_k[l]);
    }
  }
}

void Spectrum::invert(std::size_t size) {
  use_tables(size);
  for (std::size_t k = 0; k <= size / 2; ++k) {
    const float* re = &coefficient_re_[k * batch()];
    const float* im = &coefficient_im_[k * batch()];
    float* re_k = &re_[k * lanes];
    float* im_k = &im_[k * lanes];
    float* re_m = &re_[(size - k) % size * lanes];
    float* im_m = &im_[(size - k) % size * lanes];
    // The first and the highest frequency are real, whatever a message says.
    const float odd = k == 0 || 2 * k == size ? 0.0F : 1.0F;
    for (std::size_t l = 0; l < lanes; ++l) {
      const float a = odd * im[l];
      const float b = odd * im[lanes + l];
      const float even_re = re[l];
      const float even_im = re[lanes + l];
      re_k[l] = even_re - b;
      im_k[l] = even_im + a;
      re_m[l] = even_re + b;
      im_m[l] = even_im - a;
    }
  }
  kernels::fourier(im_, re_, size, cosines_, sines_);
}

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
