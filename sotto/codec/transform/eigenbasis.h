#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/gram.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/symmetric.h"

namespace sotto {

// What is kept of a symmetric matrix, to make its eigenvectors of: n (n + 3) / 2 numbers.
struct Tridiagonal {
  std::vector<double> diagonal, off;
  std::vector<float> reflections;  // kernels::make_eigenvectors
};

// Eigenvectors of M M^T, an orthonormal basis of the rows of M; only those that are asked for are made. Room is reused
// from matrix to matrix.
class Eigenbasis {
 public:
  // Room for all that matrices of at most n rows want.
  void reserve(std::size_t n, Tridiagonal& kept);
  // values: as many as M has rows, in descending order; false, and void, when they are not finite. On the given
  // threads, the same bits for any number of them.
  bool find(ThreadPool& pool, const kernels::GramInput& matrix, Tridiagonal& kept, std::span<double> values);
  // Vectors of these numbers in the order of find(), each of as many floats as M has rows.
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
