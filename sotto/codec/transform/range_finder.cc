#include "sotto/codec/transform/range_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {

void Eigenbasis::reserve(std::size_t n, Tridiagonal& kept) {
  kept.diagonal.reserve(n);
  kept.off.reserve(n);
  kept.reflections.reserve(n * n / 2);
  gram_.room(n * n);
  packed_.room(kernels::packed_gram_size(n));
  batch_.room(n * kernels::eigenvector_batch);
  diagonal_.room(n);
  off_.room(n);
  rotation_room_.room(kernels::usual_rotations(n));
  sweep_room_.room(kernels::usual_sweeps(n));
  order_.room(n);
}

bool Eigenbasis::find(ThreadPool& pool, const kernels::GramInput& matrix, Tridiagonal& kept, std::span<double> values) {
  const std::size_t n = matrix.rows;
  const std::size_t panels = (n + kernels::gram_panel - 1) / kernels::gram_panel;
  const auto gram = gram_.room(n * n);
  const auto packed = packed_.room(kernels::packed_gram_size(n));
  std::ranges::fill(gram, 0.0);
  for (std::size_t begin = 0; begin < matrix.columns; begin += kernels::gram_depth) {
    const std::size_t depth = std::min(kernels::gram_depth, matrix.columns - begin);
    pool.run(panels, [&](std::size_t i) { kernels::pack_gram(matrix, i, begin, depth, packed.data()); });
    // The last panels take the longest, so they come first.
    pool.run(panels, [&](std::size_t i) { kernels::add_gram(packed.data(), n, panels - 1 - i, depth, gram.data()); });
  }
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += gram[i * n + i];
  if (!std::isfinite(trace)) return false;

  reserve(n, kept);
  kept.diagonal.resize(n);
  kept.off.resize(n);
  kept.reflections.resize(n * (n - 1) / 2);
  kernels::tridiagonalise(gram, n, kept.diagonal, kept.off, batch_.room(n * kernels::eigenvector_batch));
  for (std::size_t i = 1; i < n; ++i) {
    // Floats suffice, as any vector defines an exact reflection. The vector is scaled to length 1, since squares might
    // overflow.
    const auto row = gram.subspan(i * n, i);
    double most = 0;
    for (const double x : row) most = std::max(most, std::abs(x));
    float* out = kept.reflections.data() + i * (i - 1) / 2;
    for (std::size_t k = 0; k < i; ++k) out[k] = most > 0 ? static_cast<float>(row[k] / most) : 0.0F;
  }
  const auto order = diagonalise(kept);
  for (std::size_t i = 0; i < n; ++i) values[i] = diagonal_.data()[order[i]];
  return true;
}

std::span<const std::uint32_t> Eigenbasis::diagonalise(const Tridiagonal& kept) {
  const std::size_t n = kept.diagonal.size();
  const auto diagonal = diagonal_.room(n);
  const auto off = off_.room(n);
  std::ranges::copy(kept.diagonal, diagonal.begin());
  std::ranges::copy(kept.off, off.begin());
  rotations_ = {rotation_room_.room(kernels::usual_rotations(n)), sweep_room_.room(kernels::usual_sweeps(n))};
  kernels::diagonalise(diagonal, off, rotations_);
  const auto order = order_.room(n);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return diagonal[a] != diagonal[b] ? diagonal[a] > diagonal[b] : a < b;
  });
  return order;
}

void Eigenbasis::write(const Tridiagonal& kept, std::span<const std::uint32_t> numbers, kernels::Vectors out) {
  constexpr std::size_t batch = kernels::eigenvector_batch;
  if (numbers.empty()) return;
  const std::size_t n = kept.diagonal.size();
  const auto order = diagonalise(kept);
  const auto vectors = batch_.room(n * batch);
  for (std::size_t begin = 0; begin < numbers.size(); begin += batch) {
    const auto some = numbers.subspan(begin, std::min(batch, numbers.size() - begin));
    std::ranges::fill(vectors, 0.0);
    for (std::size_t j = 0; j < some.size(); ++j) vectors[order[some[j]] * batch + j] = 1;
    kernels::make_eigenvectors(rotations_, kept.reflections, n, vectors);
    for (std::size_t j = 0; j < some.size(); ++j) {
      const auto target = out.at(begin + j, n);
      for (std::size_t i = 0; i < n; ++i) target[i] = static_cast<float>(vectors[i * batch + j]);
    }
  }
}

namespace {

using kernels::ConstVectors;
using kernels::Vectors;

ConstVectors constant(Vectors v) { return {v.data, v.count, v.stride}; }

// Multiplies vectors along the larger dimension to vectors along the smaller one; to_large() does the reverse.
void to_small(std::span<const float> matrix, const MatrixShape& shape, Vectors in, Vectors out) {
  const auto multiply = shape.rows <= shape.cols ? kernels::multiply : kernels::multiply_transposed;
  multiply(matrix, shape.rows, shape.cols, constant(in), out);
}
void to_large(std::span<const float> matrix, const MatrixShape& shape, Vectors in, Vectors out) {
  const auto multiply = shape.rows <= shape.cols ? kernels::multiply_transposed : kernels::multiply;
  multiply(matrix, shape.rows, shape.cols, constant(in), out);
}

// Scales each vector to length 1; zero vectors stay.
void make_units(Vectors vectors, std::size_t length) {
  for (std::size_t k = 0; k < vectors.count; ++k) {
    const auto vector = vectors.at(k, length);
    const double norm = std::sqrt(kernels::sum_squares(vector));
    for (float& x : vector) x = norm > 0 ? static_cast<float>(x / norm) : 0.0F;
  }
}

// out_j = sum_i weights_j[i] in_i, for each vector of weights.
void combine(Vectors in, std::size_t length, Vectors weights, Vectors out) {
  for (std::size_t j = 0; j < weights.count; ++j) {
    const auto target = out.at(j, length);
    std::ranges::fill(target, 0.0F);
    for (std::size_t i = 0; i < in.count; ++i) kernels::axpy(weights.at(j, in.count)[i], in.at(i, length), target);
  }
}

// How many vectors to continue with, given their singular values in descending order. Atomo surely sends the first few,
// so they do not add to its variance; the rest of the matrix is compared with the others.
std::size_t rank_wanted(std::span<const float> values, double rest, std::size_t dimension) {
  constexpr std::size_t certain = 4;
  constexpr double share = 0.05;
  double sum = 0, square = rest, all = rest;
  for (const float x : values) square += double{x} * x;
  all = square;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (square <= 1e-6 * all) return k;
    if (k >= certain && std::sqrt(static_cast<double>(dimension - k) * square) <= share * sum) return k;
    square = std::max(rest, square - double{values[k]} * values[k]);
    if (k >= certain) sum += values[k];
  }
  return values.size();
}

}  // namespace

bool RangeFinder::find(ThreadPool& pool, std::span<const float> matrix, const MatrixShape& shape, std::size_t rank,
                       const ElementStream& stream, Subspace& subspace, std::span<float> energies) {
  const std::size_t small = shape.least();
  const std::size_t large = shape.most();
  // No start yet, or one of another layout: tries the most vectors.
  const bool fits = subspace.start.size() % large == 0 && (subspace.rows == 0 || subspace.rows == shape.rows);
  const std::size_t warm = fits ? std::min(subspace.start.size() / large, rank) : 0;
  const std::size_t tried = warm == 0 ? rank : std::min(rank, warm + 8 + warm / 4);
  const Vectors range{range_.room(rank * small).data(), tried, small};
  const Vectors image{image_.room(rank * large).data(), tried, large};
  std::copy_n(subspace.start.begin(), warm * large, image.data);
  for (std::size_t k = warm; k < tried; ++k) {
    const auto vector = image.at(k, large);
    for (std::size_t j = 0; j < large; ++j) {
      vector[j] = (stream.at(static_cast<std::uint32_t>(k * large + j)) >> 31U) != 0 ? -1.0F : 1.0F;
    }
  }
  // Later matrices of this shape may need more vectors than this one.
  eigenbasis_.reserve(rank, small_);
  reflections_.room(rank * small);
  squares_.room(rank);
  for (int pass = 0; pass < 2; ++pass) {
    make_units(image, large);
    to_small(matrix, shape, image, range);
    kernels::orthonormalise(range, small);
    to_large(matrix, shape, range, image);
  }

  const auto squares = eigenvalues_.room(rank).first(tried);
  if (!eigenbasis_.find(pool, {image.data, tried, large, large, 1}, small_, squares)) return false;
  double rest = kernels::sum_squares(matrix);
  const double all = rest;
  for (std::size_t j = 0; j < tried; ++j) {
    energies[j] = static_cast<float>(std::sqrt(std::max(squares[j], 0.0)));
    rest -= squares[j];
  }
  if (!(std::sqrt(all) <= std::numeric_limits<float>::max())) return false;  // sums of rows may overflow
  // Smaller differences are rounding errors: a rest of zero would never be sent.
  rest = std::max(rest, 1e-8 * all);
  std::ranges::fill(energies.subspan(tried),
                    static_cast<float>(std::sqrt(rest / static_cast<double>(std::max<std::size_t>(small - tried, 1)))));

  const auto numbers = numbers_.room(rank).first(tried);
  std::iota(numbers.begin(), numbers.end(), 0U);
  const Vectors turn{turn_.room(rank * rank).data(), tried, tried};
  eigenbasis_.write(small_, numbers, turn);
  subspace.basis.reserve(rank * small);
  subspace.start.reserve(rank * large);
  subspace.found = tried;
  subspace.rows = shape.rows;
  subspace.basis.resize(tried * small);
  combine(range, small, turn, {subspace.basis.data(), tried, small});
  const std::size_t kept = std::max<std::size_t>(1, rank_wanted(energies.first(tried), rest, small));
  subspace.start.resize(kept * large);
  const Vectors start{subspace.start.data(), kept, large};
  combine(image, large, {turn.data, kept, turn.stride}, start);
  make_units(start, large);
  return true;
}

// Computes reflections that take the first unit vectors to the found vectors, up to signs (Householder's triangular
// factor of orthonormal vectors). They take the other unit vectors to the rest of a basis.
void RangeFinder::complete(const Subspace& subspace, std::size_t length) {
  const std::size_t count = subspace.found;
  const auto reflections = reflections_.room(count * length);
  const auto squares = squares_.room(count);
  std::ranges::copy(subspace.basis, reflections.begin());
  for (std::size_t k = 0; k < count; ++k) {
    const auto vector = reflections.subspan(k * length, length);
    for (std::size_t j = 0; j < k; ++j) {
      const auto earlier = std::span<const float>(reflections).subspan(j * length + j, length - j);
      const auto rest = vector.subspan(j);
      kernels::axpy(static_cast<float>(-2 * kernels::dot(earlier, rest) / squares[j]), earlier, rest);
    }
    const auto rest = vector.subspan(k);
    const double norm = std::sqrt(kernels::sum_squares(rest));
    rest[0] = static_cast<float>(rest[0] + std::copysign(norm, rest[0]));
    squares[k] = std::max(kernels::sum_squares(rest), std::numeric_limits<double>::min());
  }
}

void RangeFinder::write(const Subspace& subspace, std::size_t length, std::span<const std::uint32_t> numbers,
                        Vectors out) {
  const std::size_t count = subspace.found;
  const bool beyond = std::ranges::any_of(numbers, [count](std::uint32_t number) { return number >= count; });
  if (beyond) complete(subspace, length);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto vector = out.at(i, length);
    if (numbers[i] < count) {
      std::copy_n(subspace.basis.begin() + static_cast<std::ptrdiff_t>(numbers[i] * length), length, vector.begin());
      continue;
    }
    std::ranges::fill(vector, 0.0F);
    vector[numbers[i]] = 1;
    for (std::size_t k = count; k-- > 0;) {
      const std::span<const float> reflection(reflections_.data() + k * length + k, length - k);
      const auto rest = vector.subspan(k);
      kernels::axpy(static_cast<float>(-2 * kernels::dot(reflection, rest) / squares_.data()[k]), reflection, rest);
    }
  }
}

}  // namespace sotto
