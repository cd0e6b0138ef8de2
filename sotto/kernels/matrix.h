#pragma once

#include <cstddef>
#include <span>

namespace sotto::kernels {

// `count` vectors, such as the factors of a low-rank matrix; each function below says their length. Vector k begins at
// data + k * stride. There are 1 .. 200 of them.
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
// floats, folded 8 onto 8, 4 onto 4 and so on), so that every machine has the same result. `in` and `out` have the same
// number of vectors.

// out_k = M in_k. `in` has vectors of length `cols`, `out` of length `rows`.
void multiply(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in, Vectors out);

// out_k = M^T in_k. `in` has vectors of length `rows`, `out` of length `cols`.
void multiply_transposed(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in,
                         Vectors out);

// M += scale * sum_k left_k right_k^T. `left` has vectors of length `rows`, `right` of length `cols`.
void add_outer(float scale, ConstVectors left, ConstVectors right, std::size_t rows, std::size_t cols,
               std::span<float> matrix);

// Makes the vectors orthonormal: Gram-Schmidt, twice, in doubles. A vector that depends on the earlier ones (to 1e-6 of
// its length) is replaced by the first unit vector that does not, or by zeros if they span everything.
void orthonormalise(Vectors vectors, std::size_t length);

// The sum of a[i] * b[i] in doubles, in 16 lanes as in a chunk of reduce.h. REQUIRES equal lengths.
double dot(std::span<const float> a, std::span<const float> b);

// The Gram matrix M M^T in doubles, added up over blocks of columns of M. Element (i, k) of M is at
// data + i * row_step + k * column_step, so that M may be a row-major matrix or its transpose. Products of floats are
// exact in doubles, and each sum is made in ascending order of k, so every machine has the same result.
struct GramInput {
  const float* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t row_step = 0, column_step = 0;
};

constexpr std::size_t gram_panel = 8;    // rows that are packed together, column by column
constexpr std::size_t gram_depth = 256;  // columns of a block

// The number of doubles in a packed block of columns.
inline std::size_t packed_gram_size(std::size_t rows) {
  return (rows + gram_panel - 1) / gram_panel * gram_panel * gram_depth;
}

// Packs the rows of panel number `panel` (8 rows, padded with zeros), columns begin .. begin + depth - 1, as doubles
// into their place in `packed`.
void pack_gram(const GramInput& in, std::size_t panel, std::size_t begin, std::size_t depth, double* packed);

// Adds the products of `depth` packed columns to gram(i, j) for the rows i of one panel and all j <= i. `gram` is
// row-major, rows x rows; its values above the diagonal are unspecified.
void add_gram(const double* packed, std::size_t rows, std::size_t panel, std::size_t depth, double* gram);

}  // namespace sotto::kernels
