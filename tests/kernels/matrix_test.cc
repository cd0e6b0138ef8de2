// Compares products, orthonormal bases and eigenvectors with their definitions in doubles.
#include "sotto/kernels/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/symmetric.h"
#include "tests/kernels/targets.h"

namespace sotto::kernels {
namespace {

std::vector<float> draw(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  Philox random(seed, Purpose::test);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

struct Shape {
  std::size_t rows, cols, rank;
};
const std::vector<Shape> shapes{{1, 1, 1}, {1, 7, 1},  {7, 1, 1},   {5, 3, 2},     {16, 16, 3},   {17, 33, 4},
                                {3, 5, 5}, {40, 9, 6}, {9, 100, 7}, {20, 2049, 5}, {1030, 20, 9}, {0, 4, 2}};

// All products of these shapes, one after the other.
std::vector<float> all_products() {
  std::vector<float> results;
  for (const auto& [rows, cols, rank] : shapes) {
    auto matrix = draw(rows * cols, 1);
    const auto right = draw(rank * cols, 2);
    const auto left = draw(rank * rows, 3);
    std::vector<float> product(rank * rows);
    std::vector<float> transposed(rank * cols);
    multiply(matrix, rows, cols, {right.data(), rank, cols}, {product.data(), rank, rows});
    multiply_transposed(matrix, rows, cols, {left.data(), rank, rows}, {transposed.data(), rank, cols});
    add_outer(0.3F, {left.data(), rank, rows}, {right.data(), rank, cols}, rows, cols, matrix);
    results.push_back(static_cast<float>(dot(right, right)));
    for (const auto& part : {product, transposed, matrix}) results.insert(results.end(), part.begin(), part.end());
  }
  return results;
}

TEST(Matrix, EveryTargetMakesTheSameBits) {
  const auto expected = all_products();
  on_every_target([&] { EXPECT_EQ(all_products(), expected); });
}

TEST(Matrix, ProductsAreThoseOfTheDefinition) {
  for (const auto& [rows, cols, rank] : shapes) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + ", " + std::to_string(rank));
    const auto matrix = draw(rows * cols, 1);
    const std::size_t gap = 3;  // vectors need not follow each other without gaps
    const auto right = draw(rank * (cols + gap), 2);
    const auto left = draw(rank * (rows + gap), 3);
    std::vector<float> product(rank * rows, 9.0F);
    std::vector<float> transposed(rank * cols, 9.0F);
    std::vector<float> sum = matrix;
    multiply(matrix, rows, cols, {right.data(), rank, cols + gap}, {product.data(), rank, rows});
    multiply_transposed(matrix, rows, cols, {left.data(), rank, rows + gap}, {transposed.data(), rank, cols});
    add_outer(-0.5F, {left.data(), rank, rows + gap}, {right.data(), rank, cols + gap}, rows, cols, sum);
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t i = 0; i < rows; ++i) {
        double expected = 0;
        for (std::size_t j = 0; j < cols; ++j) expected += double{matrix[i * cols + j]} * right[k * (cols + gap) + j];
        EXPECT_NEAR(product[k * rows + i], expected, 1e-5 * std::sqrt(static_cast<double>(cols)) + 1e-5);
      }
      for (std::size_t j = 0; j < cols; ++j) {
        double expected = 0;
        for (std::size_t i = 0; i < rows; ++i) expected += double{matrix[i * cols + j]} * left[k * (rows + gap) + i];
        EXPECT_NEAR(transposed[k * cols + j], expected, 1e-5 * std::sqrt(static_cast<double>(rows)) + 1e-5);
      }
    }
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j) {
        double expected = matrix[i * cols + j];
        for (std::size_t k = 0; k < rank; ++k) {
          expected -= 0.5 * left[k * (rows + gap) + i] * right[k * (cols + gap) + j];
        }
        EXPECT_NEAR(sum[i * cols + j], expected, 1e-5);
      }
    }
  }
}

void expect_orthonormal(const std::vector<float>& vectors, std::size_t count, std::size_t length) {
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < length; ++i) product += double{vectors[a * length + i]} * vectors[b * length + i];
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-6) << a << " " << b;
    }
  }
}

std::vector<double> gram_of(const GramInput& in) {
  std::vector<double> gram(in.rows * in.rows), packed(packed_gram_size(in.rows));
  const std::size_t panels = (in.rows + gram_panel - 1) / gram_panel;
  for (std::size_t begin = 0; begin < in.columns; begin += gram_depth) {
    const std::size_t depth = std::min(gram_depth, in.columns - begin);
    for (std::size_t i = 0; i < panels; ++i) pack_gram(in, i, begin, depth, packed.data());
    for (std::size_t i = 0; i < panels; ++i) add_gram(packed.data(), in.rows, i, depth, gram.data());
  }
  for (std::size_t i = 0; i < in.rows; ++i) {
    for (std::size_t j = i + 1; j < in.rows; ++j) gram[i * in.rows + j] = 0;
  }
  return gram;
}

TEST(Gram, IsThatOfTheDefinitionOfAMatrixAndOfItsTranspose) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {8, 300}, {13, 257}, {35, 20}}) {
    const auto matrix = draw(rows * cols, 5);
    for (const bool transposed : {false, true}) {
      const GramInput in =
          transposed ? GramInput{matrix.data(), cols, rows, 1, cols} : GramInput{matrix.data(), rows, cols, cols, 1};
      const auto gram = gram_of(in);
      for (std::size_t i = 0; i < in.rows; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < in.columns; ++k) {
            sum +=
                double{in.data[i * in.row_step + k * in.column_step]} * in.data[j * in.row_step + k * in.column_step];
          }
          EXPECT_EQ(gram[i * in.rows + j], sum);  // products are exact and are added in this order
        }
      }
    }
  }
}

struct Eigen {
  std::vector<double> values, vectors;  // vectors follow each other
};

// The eigenvalues and eigenvectors of the matrix in the lower triangle, with room for `room` rotations.
Eigen eigen_of(std::vector<double> matrix, std::size_t n, std::size_t room) {
  std::vector<double> diagonal(n), off(n), space(2 * n);
  tridiagonalise(matrix, n, diagonal, off, space);
  std::vector<float> packed;
  for (std::size_t i = 1; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) packed.push_back(static_cast<float>(matrix[i * n + k]));
  }
  std::vector<Rotation> rotation_room(room);
  std::vector<Sweep> sweep_room(usual_sweeps(n));
  Rotations rotations{rotation_room, sweep_room};
  diagonalise(diagonal, off, rotations);
  Eigen found{diagonal, std::vector<double>(n * n)};
  for (std::size_t begin = 0; begin < n; begin += eigenvector_batch) {
    std::vector<double> batch(n * eigenvector_batch);
    for (std::size_t j = 0; j < eigenvector_batch && begin + j < n; ++j) batch[(begin + j) * eigenvector_batch + j] = 1;
    make_eigenvectors(rotations, packed, n, batch);
    for (std::size_t j = 0; j < eigenvector_batch && begin + j < n; ++j) {
      for (std::size_t i = 0; i < n; ++i) found.vectors[(begin + j) * n + i] = batch[i * eigenvector_batch + j];
    }
  }
  return found;
}

TEST(Symmetric, EigenvectorsAreOrthonormalAndMakeItDiagonal) {
  for (const std::size_t n : {1U, 2U, 3U, 17U, 40U}) {
    for (const int kind : {0, 1, 2, 3, 4}) {  // of full rank, of rank 2, all elements equal, diagonal with zeros, zero
      SCOPED_TRACE(std::to_string(n) + ", " + std::to_string(kind));
      std::vector<double> gram(n * n);
      const auto matrix = draw(n * n, 6);
      if (kind < 2) gram = gram_of({matrix.data(), n, kind == 0 ? n : std::min<std::size_t>(2, n), n, 1});
      for (std::size_t i = 0; i < n; ++i) {
        if (kind == 2) gram[i * n + i] = 5;
        if (kind == 3) gram[i * n + i] = static_cast<double>(i % 3);
      }
      for (const std::size_t room : {usual_rotations(n), n}) {
        const Eigen found = eigen_of(gram, n, room);
        double trace = 1e-30;
        for (std::size_t i = 0; i < n; ++i) trace += gram[i * n + i];
        for (std::size_t a = 0; a < n; ++a) {
          for (std::size_t b = 0; b < n; ++b) {
            double inner = 0, turned = 0;
            for (std::size_t i = 0; i < n; ++i) {
              inner += found.vectors[a * n + i] * found.vectors[b * n + i];
              for (std::size_t j = 0; j < n; ++j) {
                turned +=
                    found.vectors[a * n + i] * gram[std::max(i, j) * n + std::min(i, j)] * found.vectors[b * n + j];
              }
            }
            EXPECT_NEAR(inner, a == b ? 1 : 0, 1e-12);  // even if the room for rotations runs out early
            if (a != b && room == n) continue;
            EXPECT_NEAR(turned, a == b ? found.values[a] : 0, 1e-6 * trace);
          }
        }
      }
    }
  }
}

TEST(Symmetric, EveryTargetMakesTheSameBits) {
  const auto all = [] {
    std::vector<double> results;
    for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{21, 300}, {50, 33}}) {
      const auto matrix = draw(rows * cols, 7);
      const auto gram = gram_of({matrix.data(), rows, cols, cols, 1});
      const Eigen found = eigen_of(gram, rows, usual_rotations(rows));
      for (const auto& part : {gram, found.values, found.vectors})
        results.insert(results.end(), part.begin(), part.end());
    }
    return results;
  };
  const auto expected = all();
  on_every_target([&] { EXPECT_EQ(all(), expected); });
}

TEST(Orthonormalise, SpansTheSameAndIsOrthonormal) {
  for (const std::size_t length : {3U, 16U, 100U, 5000U}) {
    auto vectors = draw(3 * length, 4);
    // The vectors are nearly dependent, and their lengths differ widely.
    for (std::size_t i = 0; i < length; ++i) vectors[length + i] = 1e3F * vectors[i] + vectors[length + i];
    for (std::size_t i = 0; i < length; ++i) vectors[2 * length + i] *= 1e-20F;
    const auto before = vectors;
    orthonormalise({vectors.data(), 3, length}, length);
    expect_orthonormal(vectors, 3, length);
    // Old vector k is a combination of the new vectors 0 to k.
    for (std::size_t k = 0; k < 3; ++k) {
      double whole = 0;
      double kept = 0;
      for (std::size_t i = 0; i < length; ++i) whole += double{before[k * length + i]} * before[k * length + i];
      for (std::size_t j = 0; j <= k; ++j) {
        double product = 0;
        for (std::size_t i = 0; i < length; ++i) product += double{vectors[j * length + i]} * before[k * length + i];
        kept += product * product;
      }
      EXPECT_NEAR(kept / whole, 1, 1e-6);
    }
  }
}

TEST(Orthonormalise, ReplacesVectorsThatDepend) {
  const std::size_t length = 10;
  std::vector<float> vectors(5 * length);
  for (std::size_t i = 0; i < length; ++i) vectors[length + i] = vectors[2 * length + i] = static_cast<float>(i + 1);
  vectors[4 * length] = 1e-42F;  // denormal, but it has a direction
  orthonormalise({vectors.data(), 5, length}, length);
  expect_orthonormal(vectors, 5, length);
  EXPECT_EQ(vectors[0], 1);  // a zero vector becomes the first unit vector

  std::vector<float> more = draw(4 * 2, 5);  // four vectors in the plane
  orthonormalise({more.data(), 4, 2}, 2);
  expect_orthonormal({more.begin(), more.begin() + 4}, 2, 2);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(more[i], 0);
}

}  // namespace
}  // namespace sotto::kernels
