#include "sotto/codec/transform/dct.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sotto/codec/transform/row_walk.h"

namespace sotto {
namespace {

// Makhoul's order (1980): even samples forwards, then odd samples backwards. Let V be its Fourier transform, rotated by
// pi k / 2n: its real part is coefficient k, its imaginary part is minus coefficient n - k.
std::size_t place(std::size_t j, std::size_t size) { return j % 2 == 0 ? j / 2 : size - 1 - j / 2; }

}  // namespace

Dct::Dct(const DctOptions& options)
    : ChunkTransform(options),
      spectrum_(chunk()),
      cosines_(chunk() / 2 + 1),
      sines_(chunk() / 2 + 1),
      coefficients_((chunk() + 1) * spectrum_.batch()) {}

void Dct::use_tables(std::size_t size) {
  if (tabled_ == size) return;
  tabled_ = size;
  for (std::size_t k = 0; k <= size / 2; ++k) {
    const double angle = std::numbers::pi * static_cast<double>(k) / static_cast<double>(2 * size);
    cosines_[k] = static_cast<float>(std::cos(angle));
    sines_[k] = static_cast<float>(std::sin(angle));
  }
}

void Dct::forward(const Layout&, const Piece&, const Streams&, std::span<const float> values,
                  std::span<float> /*energies: the rows*/, std::span<float> rows) {
  for_batches(values.size(), chunk(), spectrum_.batch(), [&](std::size_t begin, std::size_t size, std::size_t count) {
    use_tables(size);
    const float first_factor = 1 / std::sqrt(static_cast<float>(size));
    const float factor = std::sqrt(2 / static_cast<float>(size));
    if (count < spectrum_.batch()) spectrum_.clear(size);
    for (std::size_t c = 0; c < count; ++c) {
      const float* in = &values[begin + c * size];
      for (std::size_t j = 0; j < size; ++j) spectrum_.sample(c, place(j, size)) = in[j];
    }
    spectrum_.transform(size);
    for (std::size_t c = 0; c < count; ++c) {
      float* out = &rows[begin + c * size];
      for (std::size_t k = 0; k <= size / 2; ++k) {
        const float re = spectrum_.re(c, k);
        const float im = spectrum_.im(c, k);
        out[k] = (k == 0 ? first_factor : factor) * (re * cosines_[k] + im * sines_[k]);
        if (k > 0) out[size - k] = factor * (re * sines_[k] - im * cosines_[k]);
      }
    }
  });
}

void Dct::add_inverse(const Layout&, const Piece&, std::span<const std::uint32_t> selected, std::span<const float> rows,
                      float scale, std::span<float> out) {
  const std::size_t batch = spectrum_.batch();
  RowWalk walk(selected, rows, 1);
  for_batches(out.size(), chunk(), batch, [&](std::size_t begin, std::size_t size, std::size_t count) {
    use_tables(size);
    const float first_factor = 1 / std::sqrt(static_cast<float>(size));
    const float factor = 1 / std::sqrt(2 * static_cast<float>(size));
    std::fill_n(coefficients_.begin(), (size + 1) * batch, 0.0F);
    const bool any = walk.take(begin + count * size, [&](std::size_t atom, const float* row) {
      const std::size_t c = (atom - begin) / size;
      const std::size_t k = atom - begin - c * size;
      coefficients_[k * batch + c] = *row * (k == 0 ? first_factor : factor);
    });
    if (!any) return;
    for (std::size_t k = 0; k <= size / 2; ++k) {
      const float* low = &coefficients_[k * batch];
      const float* high = &coefficients_[(size - k) * batch];
      for (std::size_t c = 0; c < batch; ++c) {
        spectrum_.re(c, k) = low[c] * cosines_[k] + high[c] * sines_[k];
        spectrum_.im(c, k) = low[c] * sines_[k] - high[c] * cosines_[k];
      }
    }
    spectrum_.invert(size);
    for (std::size_t c = 0; c < count; ++c) {
      float* target = &out[begin + c * size];
      for (std::size_t j = 0; j < size; ++j) target[j] += scale * spectrum_.sample(c, place(j, size));
    }
  });
}

}  // namespace sotto
