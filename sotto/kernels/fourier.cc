#include "sotto/kernels/fourier.h"

#include <algorithm>

namespace sotto::kernels {
namespace {

constexpr std::size_t lanes = fourier_lanes;

// Bit reversal: swaps element k with the element whose number has the bits of k in reverse order.
void reverse_bits(float* values, std::size_t n) {
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap_ranges(values + i * lanes, values + (i + 1) * lanes, values + j * lanes);
  }
}

void butterfly(float* re_a, float* im_a, float* re_b, float* im_b, float cosine, float sine) {
  for (std::size_t l = 0; l < lanes; ++l) {
    const float re = re_b[l] * cosine + im_b[l] * sine;
    const float im = im_b[l] * cosine - re_b[l] * sine;
    re_b[l] = re_a[l] - re;
    im_b[l] = im_a[l] - im;
    re_a[l] += re;
    im_a[l] += im;
  }
}

}  // namespace

void fourier(std::span<float> re, std::span<float> im, std::size_t n, std::span<const float> cosines,
             std::span<const float> sines) {
  reverse_bits(re.data(), n);
  reverse_bits(im.data(), n);
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t step = n / (2 * half);
    for (std::size_t begin = 0; begin < n; begin += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const std::size_t a = (begin + k) * lanes;
        const std::size_t b = a + half * lanes;
        butterfly(&re[a], &im[a], &re[b], &im[b], cosines[k * step], sines[k * step]);
      }
    }
  }
}

void hadamard(std::span<float> values, std::size_t n) {
  for (std::size_t half = 1; half < n; half *= 2) {
    for (std::size_t begin = 0; begin < n; begin += 2 * half) {
      float* a = &values[begin * lanes];
      float* b = a + half * lanes;
      for (std::size_t i = 0; i < half * lanes; ++i) {
        const float sum = a[i] + b[i];
        b[i] = a[i] - b[i];
        a[i] = sum;
      }
    }
  }
}

}  // namespace sotto::kernels
