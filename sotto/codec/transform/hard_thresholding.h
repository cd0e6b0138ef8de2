#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/fourier.h"

namespace sotto {

// Recovers sparse vectors from some of their Hadamard coefficients, by normalised iterative hard thresholding
// (Blumensath, Davies, IEEE J. Sel. Topics in Signal Processing 4, 2010). Each step goes along the gradient of the
// squared residual, with the length that is best for the kept elements; then the largest elements are kept. A step that
// would not reduce the residual is not taken, but tried again with half the length, so the result is never worse than
// zero.
class HardThresholding {
 public:
  static constexpr std::size_t most = kernels::fourier_lanes;  // vectors at once

  // Recovers vectors of `size` elements, a power of two, with `keep` non-zero elements, from the coefficients whose
  // numbers are `rows`.
  HardThresholding(std::size_t size, std::span<const std::uint32_t> rows, std::size_t keep, std::size_t iterations);

  // `measured` has the coefficients of each vector in turn. Returns the elements of each vector, valid until the next
  // call.
  std::span<const float> recover(std::span<const float> measured);

 private:
  struct Vector {      // the progress of one vector
    double left = 0;   // square of the residual
    double along = 0;  // square of the gradient at the kept elements
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
  void set_direction(std::size_t v);           // work: the gradient at the kept elements
  void try_step(std::size_t v);                // REQUIRES the coefficients of that direction in work
  void take_step(std::size_t v);               // REQUIRES the coefficients of the tried vector in work

  std::size_t size_, keep_, iterations_;
  std::vector<std::uint32_t> rows_;
  std::array<Vector, most> vectors_;
  // For each vector in turn: its coefficients, the vector found so far, the residual coefficients, the vector after a
  // step.
  std::vector<float> measured_, found_, residual_, gradient_, tried_, work_;
  std::vector<float> lanes_;
  std::vector<std::uint32_t> order_;
};

}  // namespace sotto
