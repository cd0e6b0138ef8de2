#pragma once

#include <cstddef>

namespace sotto::kernels {

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
