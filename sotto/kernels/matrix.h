#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// `count` vectors of a length that the function says; vector k begins at data + k * stride. Few (1 .. 200): the factors
// of a matrix of low rank.
template <class Float>
struct BasicVectors {
  Float* data = nullptr;
  std::size_t count = 0;
  std::size_t stride = 0;

  std::span<Float> at(std::size_t k, std::size_t length) const { return {data + k * stride, length}; }
};
using Vectors = BasicVectors<float>;
using ConstVectors = BasicVectors<const float>;

// Matrices are row-major, `rows` x `cols`, without gaps. Sums are made in a fixed order (dot products in 16 lanes of
// floats, folded 8 onto 8, 4 onto 4 and so on), so that every machine has the same result.

// out_k = M in_k.  in: vectors of `cols`, out: of `rows`, as many.
void multiply(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in, Vectors out);

// out_k = M^T in_k.  in: vectors of `rows`, out: of `cols`, as many.
void multiply_transposed(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in,
                         Vectors out);

// M += scale * sum_k left_k right_k^T.  left: vectors of `rows`, right: of `cols`.
void add_outer(float scale, ConstVectors left, ConstVectors right, std::size_t rows, std::size_t cols,
               std::span<float> matrix);

// Gram-Schmidt, twice over, in doubles: afterwards the vectors are orthonormal. One that depends on those before it (to
// 1e-6 of its length) becomes the first unit vector that does not; a zero vector when they span everything already.
void orthonormalise(Vectors vectors, std::size_t length);

// The sum of a[i] * b[i] in doubles, in 16 lanes as in a chunk of reduce.h. REQUIRES the same length.
double dot(std::span<const float> a, std::span<const float> b);

}  // namespace sotto::kernels
