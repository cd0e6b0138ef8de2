#pragma once

#include <cstddef>
#include <cstdint>

namespace sotto::kernels {

// M M^T in doubles, in blocks of columns that are added one after the other. Element (i, k) of M stands at
// data + i * row_step + k * column_step, so that M may be a row-major matrix or its transpose. Products of floats are
// exact in doubles and each sum is made in ascending order of k: every machine has the same result.
struct GramInput {
  const float* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t row_step = 0, column_step = 0;
};

constexpr std::size_t gram_panel = 8;    // rows whose columns stand together when packed
constexpr std::size_t gram_depth = 256;  // columns of a block

// Doubles that a packed block takes.
inline std::size_t packed_gram_size(std::size_t rows) {
  return (rows + gram_panel - 1) / gram_panel * gram_panel * gram_depth;
}

// Rows of panel number `panel` (8 of them, padded with zeros) and `depth` columns from `begin` on, as doubles into
// their place in `packed`.
void pack_gram(const GramInput& in, std::size_t panel, std::size_t begin, std::size_t depth, double* packed);

// gram(i, j) += what `depth` packed columns make of it, for the rows i of one panel and all j <= i. Row-major, rows x
// rows; above the diagonal it may hold anything.
void add_gram(const double* packed, std::size_t rows, std::size_t panel, std::size_t depth, double* gram);

}  // namespace sotto::kernels
