#include "sotto/codec/transform/range_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
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

// How many vectors to continue with, given their singular values in descending order. The first few are surely sent by
// atomo and do not add to its variance; the rest of the matrix is compared with the other ones.
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
