#include "sotto/codec/transform/dct.h"

#include <cmath>
#include <numbers>

namespace sotto {
namespace {

constexpr std::size_t lanes = kernels::fourier_lanes;

// Makhoul's order (1980): even samples forwards, then odd samples backwards. Let V be the Fourier transform of the
// samples in this order, with V_k rotated by pi k / 2n. The real part of V_k is coefficient k, and the imaginary part
// is minus coefficient n - k.
std::size_t place(std::size_t j, std::size_t size) { return j % 2 == 0 ? j / 2 : size - 1 - j / 2; }

}  // namespace

Dct::Dct(const DctOptions& options)
    : ChunkTransform(options),
      spectrum_(chunk()),
      cosines_(chunk() / 2 + 1),
      sines_(chunk() / 2 + 1),
      order_(chunk()),
      coefficients_((chunk() + 1) * spectrum_.batch()) {}

void Dct::use_tables(std::size_t size) {
  if (tabled_ == size) return;
  tabled_ = size;
  for (std::size_t k = 0; k <= size / 2; ++k) {
    const double angle = std::numbers::pi * static_cast<double>(k) / static_cast<double>(2 * size);
    cosines_[k] = static_cast<float>(std::cos(angle));
    sines_[k] = static_cast<float>(std::sin(angle));
  }
  for (std::size_t j = 0; j < size; ++j) order_[j] = static_cast<std::uint32_t>(place(j, size));
}

// Calls run(k, re, im, low, high) for each frequency k <= size / 2 and each half of a batch: `re` and `im` are lanes of
// the spectrum, `low` and `high` are lanes of coefficients k and size - k.
template <class Run>
void Dct::for_frequencies(std::size_t size, Run run) {
  for (std::size_t half = 0; half < 2; ++half) {
    float* rows = half_of_batch(half, size);
    for (std::size_t k = 0; k <= size / 2; ++k) {
      run(k, &spectrum_.re(half * lanes, k), &spectrum_.im(half * lanes, k), rows + k * lanes,
          rows + (size - k) * lanes);
    }
  }
}

void Dct::forward(const Layout&, const Piece&, const Streams&, std::span<const float> values,
                  std::span<float> /*energies: the rows*/, std::span<float> rows) {
  for_batches(values.size(), chunk(), spectrum_.batch(), [&](std::size_t begin, std::size_t size, std::size_t count) {
    use_tables(size);
    spectrum_.read(values.subspan(begin, count * size), size, order_);
    spectrum_.transform(size);
    const float first_factor = 1 / std::sqrt(static_cast<float>(size));
    const float factor = std::sqrt(2 / static_cast<float>(size));
    for_frequencies(size, [&](std::size_t k, const float* re, const float* im, float* low, float* high) {
      const float cosine = cosines_[k], sine = sines_[k], low_factor = k == 0 ? first_factor : factor;
      for (std::size_t l = 0; l < lanes; ++l) {
        low[l] = low_factor * (re[l] * cosine + im[l] * sine);
        high[l] = factor * (re[l] * sine - im[l] * cosine);
      }
    });
    const auto out = rows.subspan(begin, count * size);
    const std::size_t first = std::min(lanes * size, out.size());
    kernels::from_lanes({half_of_batch(0, size), lanes * size}, size, out.first(first));
    kernels::from_lanes({half_of_batch(1, size), lanes * size}, size, out.subspan(first));
  });
}

void Dct::add_inverse(const Layout&, const Piece&, std::span<const std::uint32_t> selected, std::span<const float> rows,
                      float scale, std::span<float> out) {
  RowWalk walk(selected, rows, 1);
  for_batches(out.size(), chunk(), spectrum_.batch(), [&](std::size_t begin, std::size_t size, std::size_t count) {
    use_tables(size);
    const float first_factor = 1 / std::sqrt(static_cast<float>(size));
    const float factor = 1 / std::sqrt(2 * static_cast<float>(size));
    if (const auto all = walk.take_all(begin, begin + count * size); !all.empty()) {
      const std::size_t first = std::min(lanes * size, all.size());
      kernels::to_lanes(all.first(first), size, {half_of_batch(0, size), lanes * size});
      kernels::to_lanes(all.subspan(first), size, {half_of_batch(1, size), lanes * size});
      for (std::size_t half = 0; half < 2; ++half) std::fill_n(half_of_batch(half, size) + size * lanes, lanes, 0.0F);
    } else {
      std::fill_n(coefficients_.begin(), (size + 1) * spectrum_.batch(), 0.0F);
      const bool any = walk.take(begin + count * size, [&](std::size_t atom, const float* row) {
        const std::size_t c = (atom - begin) / size;
        const std::size_t k = atom - begin - c * size;
        half_of_batch(c / lanes, size)[k * lanes + c % lanes] = *row;
      });
      if (!any) return;
    }
    for_frequencies(size, [&](std::size_t k, float* re, float* im, const float* low, const float* high) {
      const float cosine = cosines_[k], sine = sines_[k], low_factor = k == 0 ? first_factor : factor;
      for (std::size_t l = 0; l < lanes; ++l) {
        const float a = low[l] * low_factor, b = high[l] * factor;
        re[l] = a * cosine + b * sine;
        im[l] = a * sine - b * cosine;
      }
    });
    spectrum_.invert(size);
    spectrum_.add(scale, size, out.subspan(begin, count * size), order_);
  });
}

}  // namespace sotto
