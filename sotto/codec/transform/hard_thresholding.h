#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/fourier.h"

namespace sotto {

// Sparse vectors from some of their Hadamard coefficients, by normalised iterative hard thresholding (Blumensath,
// Davies, IEEE J. Sel. Topics in Signal Processing 4, 2010): a step along the gradient of the residual's square, as
// long as is best for the elements that are kept, after which the largest are kept. A step that would not make the
// residual smaller is not taken, and tried again half as long, so what is returned is never worse than nothing.
class HardThresholding {
 public:
  static constexpr std::size_t most = kernels::fourier_lanes;  // vectors at once

  // Of vectors of `size` elements, a power of two, `keep` are found from the coefficients with these numbers.
  HardThresholding(std::size_t size, std::span<const std::uint32_t> rows, std::size_t keep, std::size_t iterations);

  // measured: of each vector in turn the coefficients; what is returned: its elements, valid until the next call.
  std::span<const float> recover(std::span<const float> measured);

 private:
  struct Vector {      // how far one has come
    double left = 0;   // square of the residual
    double along = 0;  // square of the gradient where elements are kept
    float length = 1;  // of a step, as a share of the best
    bool begun = false;
    bool done() const { return left == 0 || length < 0x1p-6F; }
  };

  std::span<float> of(std::vector<float>& all, std::size_t vector) const {
    return std::span(all).subspan(vector * size_, size_);
  }
  void transform(std::vector<float>& all);  // orthonormal, and its own inverse
  double square_on_rows(std::span<const float> coefficients) const;
  void keep_largest(std::span<float> values);  // the others become zero
  void set_direction(std::size_t v);           // work: the gradient where elements are kept
  void try_step(std::size_t v);                // with the coefficients of that direction in work
  void take_step(std::size_t v);               // with the coefficients of what was tried in work

  std::size_t size_, keep_, iterations_;
  std::vector<std::uint32_t> rows_;
  std::array<Vector, most> vectors_;
  // Of each vector in turn: coefficients, what is found, the coefficients that it leaves over, what a step would find.
  std::vector<float> measured_, found_, residual_, gradient_, tried_, work_;
  std::vector<float> lanes_;
  std::vector<std::uint32_t> order_;
};

}  // namespace sotto
