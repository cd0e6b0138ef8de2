#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/gram.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/symmetric.h"

namespace sotto {

// What is kept of a symmetric matrix in order to compute its eigenvectors: n (n + 3) / 2 numbers.
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

}  // namespace sotto
