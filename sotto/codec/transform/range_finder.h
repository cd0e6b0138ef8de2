#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/transform/eigenbasis.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/matrix.h"

namespace sotto {

struct MatrixShape {
  std::size_t rows = 1, cols = 1;
  std::size_t least() const { return rows < cols ? rows : cols; }
  std::size_t most() const { return rows < cols ? cols : rows; }
};

// Of a matrix: `found` orthonormal vectors along its smaller dimension, and what to begin the next search with.
struct Subspace {
  std::size_t found = 0;
  std::vector<float> basis;  // vector by vector, the leading one first
  std::vector<float> start;  // unit vectors along the larger dimension
  std::size_t rows = 0;      // of the matrix that `start` is of; 0: it comes from a checkpoint, which does not say it
};

// Leading singular vectors of large matrices (Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM
// Review 2011): two multiplications with the matrix and its transpose each, which begin with the vectors that the
// search of the step before ended with, and random ones. How many are looked for follows the spectrum from step to
// step, up to `rank`: as many as it takes until the rest of the matrix, spread evenly, weighs a twentieth of those
// found, and a quarter beside.
class RangeFinder {
 public:
  // energies: as many as the smaller dimension. Those of the vectors found come first, in descending order; all others
  // share what is left. False, and void, when numbers on the way are too large for floats.
  bool find(ThreadPool& pool, std::span<const float> matrix, const MatrixShape& shape, std::size_t rank,
            const ElementStream& stream, Subspace& subspace, std::span<float> energies);
  // Vectors of a basis of the smaller dimension that begins with those found.
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
