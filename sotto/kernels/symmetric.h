#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Eigenvectors of symmetric matrices (Golub and Van Loan, "Matrix Computations", 8.3), in doubles: reflections make the
// matrix tridiagonal, rotations make that diagonal, and any eigenvector is what both make of a unit vector, from the
// last to the first. So few eigenvectors cost little, and all are orthonormal however close their eigenvalues are. Sums
// are made in a fixed order: every machine has the same result.

// Makes a symmetric matrix (row-major, n x n, of which only the lower triangle is read) tridiagonal. Afterwards row i
// holds, in its first i elements, the vector v of reflection I - 2 v v^T / |v|^2 (zeros: none). `room`: 2 n doubles.
// REQUIRES numbers whose fourth powers are finite.
void tridiagonalise(std::span<double> matrix, std::size_t n, std::span<double> diagonal, std::span<double> off,
                    std::span<double> room);

struct Rotation {
  double cosine, sine;
};
struct Sweep {
  std::uint32_t last = 0;   // its first rotation is of the rows `last` and `last` + 1, the others go downwards
  std::uint32_t count = 0;  // of its rotations
};
// The rotations that made a tridiagonal matrix diagonal.
struct Rotations {
  std::span<Rotation> rotations;  // room for them, at least n
  std::span<Sweep> sweeps;        // room
  std::size_t rotation_count = 0, sweep_count = 0;
};
// Room that suffices as a rule.
inline std::size_t usual_rotations(std::size_t n) { return 2 * n * n + 16 * n; }
inline std::size_t usual_sweeps(std::size_t n) { return 4 * n + 16; }

// Implicit QL: `diagonal` becomes the eigenvalues, off[i], which joins i and i + 1, zero. When room for rotations ends,
// so do they: vectors are then as orthonormal, `diagonal` is what each of them has of the matrix (v^T M v), and what is
// left of `off` lies between them.
void diagonalise(std::span<double> diagonal, std::span<double> off, Rotations& rotations);

constexpr std::size_t eigenvector_batch = 16;  // vectors that are made at once
// vectors: n rows of so many columns, each a unit vector e_i at first and eigenvector number i at last. Reflections as
// above, as floats, row i from packed[i (i - 1) / 2] on.
void make_eigenvectors(const Rotations& rotations, std::span<const float> packed, std::size_t n,
                       std::span<double> vectors);

}  // namespace sotto::kernels
