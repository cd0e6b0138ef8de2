#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto::kernels {

// Eigenvectors of symmetric matrices (Golub and Van Loan, "Matrix Computations", 8.3), in doubles. Reflections make the
// matrix tridiagonal, and rotations make that diagonal. Applying both to a unit vector, from the last to the first,
// gives an eigenvector. A few eigenvectors are thus cheap, and all are orthonormal however close their eigenvalues are.
// Sums are made in a fixed order, so every machine has the same result.

// Makes a symmetric matrix (row-major, n x n; only the lower triangle is read) tridiagonal, with the diagonals
// `diagonal` and `off`. Afterwards the first i elements of row i hold the vector v of reflection I - 2 v v^T / |v|^2
// (zeros: no reflection). `room`: 2 n doubles. REQUIRES numbers whose fourth powers are finite.
void tridiagonalise(std::span<double> matrix, std::size_t n, std::span<double> diagonal, std::span<double> off,
                    std::span<double> room);

struct Rotation {
  double cosine, sine;
};
// The first rotation of a sweep is of rows `last` and `last` + 1; the row numbers of each later one are lower by 1.
struct Sweep {
  std::uint32_t last = 0;
  std::uint32_t count = 0;  // the number of rotations
};
// The rotations that made a tridiagonal matrix diagonal.
struct Rotations {
  std::span<Rotation> rotations;  // room for at least n
  std::span<Sweep> sweeps;        // room for them
  std::size_t rotation_count = 0, sweep_count = 0;
};
// Room that usually suffices.
inline std::size_t usual_rotations(std::size_t n) { return 2 * n * n + 16 * n; }
inline std::size_t usual_sweeps(std::size_t n) { return 4 * n + 16; }

// Implicit QL: turns `diagonal` into the eigenvalues and off[i], which couples i and i + 1, into zeros. It stops early
// when the room for rotations is used up: the vectors are orthonormal all the same, diagonal[i] is v_i^T M v_i, and
// off[i] is v_i^T M v_(i+1).
void diagonalise(std::span<double> diagonal, std::span<double> off, Rotations& rotations);

constexpr std::size_t eigenvector_batch = 16;  // vectors that are made at once
// `vectors`: n rows of eigenvector_batch columns. A column that is the unit vector e_i becomes eigenvector number i.
// `packed`: the reflections as floats; row i begins at packed[i (i - 1) / 2].
void make_eigenvectors(const Rotations& rotations, std::span<const float> packed, std::size_t n,
                       std::span<double> vectors);

}  // namespace sotto::kernels
