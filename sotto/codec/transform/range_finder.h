#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/symmetric.h"

namespace sotto {

// The form of a symmetric matrix from which its eigenvectors are computed: n (n + 3) / 2 numbers.
struct Tridiagonal {
  std::vector<double> diagonal, off;
  std::vector<float> reflections;  // kernels::make_eigenvectors
};

// Eigenvectors of M M^T, an orthonormal basis for the row dimension of M. Only requested vectors are computed. Buffers
// are reused from matrix to matrix.
class Eigenbasis {
 public:
  // Allocates for matrices of at most n rows.
  void reserve(std::size_t n, Tridiagonal& kept);
  // Finds as many eigenvalues as M has rows, in descending order. Returns false, with `values` unspecified, if they are
  // not finite. The bits do not depend on the number of threads.
  bool find(ThreadPool& pool, const kernels::GramInput& matrix, Tridiagonal& kept, std::span<double> values);
  // Writes the eigenvectors with these numbers, in the order of find(); each has as many floats as M has rows.
  void write(const Tridiagonal& kept, std::span<const std::uint32_t> numbers, kernels::Vectors out);

 private:
  std::span<const std::uint32_t> diagonalise(const Tridiagonal& kept);

  Scratch<double> packed_, gram_, diagonal_, off_, batch_;
  Scratch<kernels::Rotation> rotation_room_;
  Scratch<kernels::Sweep> sweep_room_;
  Scratch<std::uint32_t> order_;
  kernels::Rotations rotations_;
};

struct MatrixShape {
  std::size_t rows = 1, cols = 1;
  std::size_t least() const { return rows < cols ? rows : cols; }
  std::size_t most() const { return rows < cols ? cols : rows; }
};

// For one matrix: `found` orthonormal vectors along its smaller dimension, and the start of the next search.
struct Subspace {
  std::size_t found = 0;
  std::vector<float> basis;  // vector by vector, the leading one first
  std::vector<float> start;  // unit vectors along the larger dimension
  std::size_t rows = 0;      // of the matrix of `start`; 0: unknown, `start` comes from a checkpoint
};

// Leading singular vectors of large matrices (Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM
// Review 2011): two multiplications each with the matrix and its transpose. A search starts with the final vectors of
// the previous step and some random ones. The number of vectors, at most `rank`, follows the spectrum from step to
// step. A step keeps so many that the singular values of the rest of the matrix, if that is spread evenly, sum to at
// most a twentieth of the sum of the kept ones (without the first four). The next step searches for a quarter and 8
// more.
class RangeFinder {
 public:
  // `energies` has as many numbers as the smaller dimension. The energies of the found vectors come first, in
  // descending order; all others share the rest. Returns false, with `energies` unspecified, if numbers overflow floats
  // on the way.
  bool find(ThreadPool& pool, std::span<const float> matrix, const MatrixShape& shape, std::size_t rank,
            const ElementStream& stream, Subspace& subspace, std::span<float> energies);
  // Writes vectors of a basis of the smaller dimension; the basis starts with the found vectors.
  void write(const Subspace& subspace, std::size_t length, std::span<const std::uint32_t> numbers,
             kernels::Vectors out);

 private:
  void complete(const Subspace& subspace, std::size_t length);

  Eigenbasis eigenbasis_;
  Tridiagonal small_;
  Scratch<float> range_, image_, turn_, reflections_;
  Scratch<double> squares_, eigenvalues_;
  Scratch<std::uint32_t> numbers_;
};

}  // namespace sotto
