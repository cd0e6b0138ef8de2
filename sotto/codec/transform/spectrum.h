#pragma once

#include <vector>

namespace sotto {

// Fourier transforms of many real chunks of the same power of two, side by side. Two chunks share a complex transform,
// one as its real part and one as its imaginary part.
class Spectrum {
 public:
  explicit Spectrum(std::size_t largest);  // `largest`: the largest chunk size

  std::size_t batch() const { return 2 * lanes; }  // chunks at once
  // Sample j of chunk c, for j < size; or coefficient k of chunk c, for k <= size / 2. REQUIRES c < batch().
  float& sample(std::size_t c, std::size_t j) { return (c < lanes ? re_ : im_)[j * lanes + c % lanes]; }
  void clear(std::size_t size);      // samples and coefficients to zero
  void transform(std::size_t size);  // samples -> coefficients, sum_j x_j exp(-2 pi i j k / size)
  void invert(std::size_t size);     // coefficients -> samples, times size
  float& re(std::size_t c, std::size_t k) { return coefficient_re_[k * batch() + c]; }
  float& im(std::size_t c, std::size_t k) { return coefficient_im_[k * batch() + c]; }

 private:
  static constexpr std::size_t lanes = 16;
  void use_tables(std::size_t size);

  std::size_t tabled_ = 0;
  std::vector<float> re_, im_, coefficient_re_, coefficient_im_, cosines_, sines_;
};

}  // namespace sotto
