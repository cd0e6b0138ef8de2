#include "sotto/codec/transform/svd.h"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

constexpr int most = 128;  // rows of the largest matrix that is decomposed

using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, most, most>;

float sign_at(const ElementStream& stream, std::size_t i) {
  return (stream.at(static_cast<std::uint32_t>(i)) >> 31) != 0 ? -1.0F : 1.0F;
}

kernels::ConstVectors constant(kernels::Vectors v) { return {v.data, v.count, v.stride}; }

// out_j = sum_i in_i weights(i, column - j), for the `count` last columns in descending order.
void combine(kernels::Vectors in, std::size_t length, const Small& weights, kernels::Vectors out) {
  for (std::size_t j = 0; j < out.count; ++j) {
    const auto target = out.at(j, length);
    std::ranges::fill(target, 0.0F);
    for (std::size_t i = 0; i < in.count; ++i) {
      const auto column = weights.cols() - 1 - static_cast<Eigen::Index>(j);
      kernels::axpy(static_cast<float>(weights(static_cast<Eigen::Index>(i), column)), in.at(i, length), target);
    }
  }
}

}  // namespace

// Eigenvalues ascend, so that the last columns are those of the largest.
struct Svd::Eigenvectors {
  Small gram;
  Eigen::SelfAdjointEigenSolver<Small> solver;

  // Of the inner products of these vectors; false when they are not finite.
  bool find(kernels::ConstVectors vectors, std::size_t length) {
    const auto count = static_cast<Eigen::Index>(vectors.count);
    gram.resize(count, count);
    for (Eigen::Index i = 0; i < count; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        gram(i, j) = kernels::dot(vectors.at(static_cast<std::size_t>(i), length),
                                  vectors.at(static_cast<std::size_t>(j), length));
      }
    }
    if (!std::isfinite(gram.diagonal().sum())) return false;
    solver.compute(gram);  // reads the lower triangle
    if (solver.info() != Eigen::Success) throw std::logic_error("svd: no eigenvectors of a symmetric matrix");
    return true;
  }
  const Small& vectors() const { return solver.eigenvectors(); }
};

MatrixShape matrix_shape(std::span<const std::int64_t> tensor, bool halves) {
  std::size_t numel = 1;
  for (const std::int64_t size : tensor) numel *= static_cast<std::size_t>(size);
  if (tensor.size() < 2 || numel == 0) return {1, numel};
  auto rows = static_cast<std::size_t>(tensor[0]);
  if (halves && static_cast<std::size_t>(tensor[0] * tensor[1]) % 2 == 0) {
    rows = static_cast<std::size_t>(tensor[0] * tensor[1]) / 2;
  }
  return {rows, numel / rows};
}

Svd::Svd(const SvdOptions& options)
    : options_(options),
      rank_(static_cast<std::size_t>(options.rank)),
      exact_(static_cast<std::size_t>(options.exact)),
      probes_(static_cast<std::size_t>(options.probes)),
      eigenvectors_(std::make_unique<Eigenvectors>()) {}

Svd::~Svd() = default;

kernels::Vectors Svd::Target::left(std::size_t first, std::size_t count) const {
  const std::size_t stride = shape.rows + shape.cols;
  return {rows.data() + first * stride, count, stride};
}

kernels::Vectors Svd::Target::right(std::size_t first, std::size_t count) const {
  const std::size_t stride = shape.rows + shape.cols;
  return {rows.data() + first * stride + shape.rows, count, stride};
}

MatrixShape Svd::shape_of(const Layout& layout, std::size_t segment) const {
  return matrix_shape(layout.segments()[segment].shape, options_.reshape == "halves");
}

bool Svd::is_exact(const MatrixShape& shape) const { return shape.least() <= std::max(exact_, rank_); }

Atoms Svd::atoms(const Layout& layout, const Piece& piece) const {
  const MatrixShape shape = shape_of(layout, piece.segment);
  if (piece.range.size() != shape.rows * shape.cols) throw std::logic_error("svd: a part cuts through a matrix");
  const std::size_t count = is_exact(shape) ? shape.least() : rank_ + probes_;
  return {count, shape.rows + shape.cols, shape.rows, 0};
}

void Svd::forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                  std::span<float> energies, std::span<float> rows) {
  const Target target{shape_of(layout, piece.segment), values, energies, rows};
  bool finite = kernels::all_finite(values);
  if (finite && is_exact(target.shape)) {
    finite = decompose(target);
  } else if (finite) {
    const std::uint64_t place = (std::uint64_t{streams.bucket} << 32U) | piece.segment;
    finite = approximate(target, streams.stream(Purpose::transform, piece.segment), warm_[place]);
  }
  if (!finite) std::ranges::fill(rows, std::numeric_limits<float>::quiet_NaN());
  // One factor of each atom has length 1 (or signs, sqrt(n)); the product of both is the atom's.
  for (std::size_t j = 0; j < energies.size(); ++j) {
    energies[j] = static_cast<float>(std::sqrt(kernels::sum_squares(target.left(j, 1).at(0, target.shape.rows))) *
                                     std::sqrt(kernels::sum_squares(target.right(j, 1).at(0, target.shape.cols))));
  }
}

bool Svd::decompose(const Target& target) {
  const auto [rows, cols] = target.shape;
  const std::size_t count = target.shape.least();
  const auto left = target.left(0, count);
  const auto right = target.right(0, count);
  // Unit vectors along the smaller dimension, combined into the eigenvectors, and their images along the other.
  const auto write = [count](const Small& vectors, kernels::Vectors out) {
    for (std::size_t j = 0; j < count; ++j) {
      const auto column = static_cast<Eigen::Index>(count - 1 - j);
      for (std::size_t i = 0; i < count; ++i) {
        out.at(j, count)[i] = static_cast<float>(vectors(static_cast<Eigen::Index>(i), column));
      }
    }
  };
  if (rows <= cols) {
    if (!eigenvectors_->find({target.matrix.data(), rows, cols}, cols)) return false;
    write(eigenvectors_->vectors(), left);
    kernels::multiply_transposed(target.matrix, rows, cols, constant(left), right);
  } else {
    const auto transposed = transposed_.room(rows * cols);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j) transposed[j * rows + i] = target.matrix[i * cols + j];
    }
    if (!eigenvectors_->find({transposed.data(), cols, rows}, rows)) return false;
    write(eigenvectors_->vectors(), right);
    kernels::multiply(target.matrix, rows, cols, constant(right), left);
  }
  return true;
}

bool Svd::approximate(const Target& target, const ElementStream& stream, std::vector<float>& warm) {
  const auto [rows, cols] = target.shape;
  const std::size_t tried = rank_ + 1;
  const bool probe_rows = rows <= cols;
  const std::size_t with_probes = tried + probes_;

  // Vectors to begin with, and behind them the signs of the probes along the columns.
  const kernels::Vectors start{start_.room(with_probes * cols).data(), with_probes, cols};
  const kernels::Vectors range{range_.room(with_probes * rows).data(), with_probes, rows};
  const kernels::Vectors image{image_.room(with_probes * cols).data(), with_probes, cols};
  const auto first = [](kernels::Vectors v, std::size_t count) { return kernels::Vectors{v.data, count, v.stride}; };
  const auto last = [&](kernels::Vectors v) { return kernels::Vectors{v.data + tried * v.stride, probes_, v.stride}; };
  const bool cold = warm.size() != rank_ * cols;  // none yet, or of another layout
  for (std::size_t k = 0; k < with_probes; ++k) {
    const auto vector = start.at(k, cols);
    if (k < rank_ && !cold) {
      std::copy_n(warm.begin() + static_cast<std::ptrdiff_t>(k * cols), cols, vector.begin());
    } else {
      for (std::size_t j = 0; j < cols; ++j) vector[j] = sign_at(stream, k * (rows + cols) + j);
    }
  }
  kernels::multiply(target.matrix, rows, cols, constant(first(start, probe_rows ? tried : with_probes)),
                    first(range, probe_rows ? tried : with_probes));
  kernels::orthonormalise(first(range, tried), rows);

  if (probe_rows) {
    for (std::size_t p = 0; p < probes_; ++p) {
      const auto signs = last(range).at(p, rows);
      for (std::size_t i = 0; i < rows; ++i) signs[i] = sign_at(stream, (tried + p) * (rows + cols) + cols + i);
    }
  }
  kernels::multiply_transposed(target.matrix, rows, cols, constant(first(range, probe_rows ? with_probes : tried)),
                               first(image, probe_rows ? with_probes : tried));

  if (!eigenvectors_->find(constant(first(image, tried)), cols)) return false;
  const Small& turn = eigenvectors_->vectors();
  combine(first(range, tried), rows, turn, target.left(0, rank_));
  combine(first(image, tried), cols, turn, target.right(0, rank_));
  warm.resize(rank_ * cols);
  for (std::size_t j = 0; j < rank_; ++j) {
    const auto vector = target.right(j, 1).at(0, cols);
    const double norm = std::sqrt(kernels::sum_squares(vector));
    for (std::size_t i = 0; i < cols; ++i) {
      warm[j * cols + i] = norm > 0 ? static_cast<float>(vector[i] / norm) : 0.0F;
    }
  }
  if (probe_rows) {
    add_probes(target, constant(last(range)), constant(last(image)));
  } else {
    add_probes(target, constant(last(start)), constant(last(range)));
  }
  return true;
}

// signs: z; products: A^T z or A z. The atoms behind the triplets are z (R^T z)^T / probes or (R z) z^T / probes, with
// R = A - sum_j u_j w_j^T.
void Svd::add_probes(const Target& target, kernels::ConstVectors signs, kernels::ConstVectors products) {
  const auto [rows, cols] = target.shape;
  const bool along_rows = rows <= cols;
  for (std::size_t p = 0; p < probes_; ++p) {
    const auto left = target.left(rank_ + p, 1).at(0, rows);
    const auto right = target.right(rank_ + p, 1).at(0, cols);
    const auto z = along_rows ? left : right;
    const auto rest = along_rows ? right : left;
    std::ranges::copy(signs.at(p, z.size()), z.begin());
    std::ranges::copy(products.at(p, rest.size()), rest.begin());
    for (std::size_t j = 0; j < rank_; ++j) {
      const auto u = target.left(j, 1).at(0, rows);
      const auto w = target.right(j, 1).at(0, cols);
      const double share = kernels::dot(along_rows ? u : w, z);
      kernels::axpy(-static_cast<float>(share), along_rows ? w : u, rest);
    }
    kernels::scale(1.0F / static_cast<float>(probes_), left);
  }
}

void Svd::add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                      std::span<const float> rows, float scale, std::span<float> out) const {
  const MatrixShape shape = shape_of(layout, piece.segment);
  const std::size_t stride = shape.rows + shape.cols;
  kernels::add_outer(scale, {rows.data(), selected.size(), stride}, {rows.data() + shape.rows, selected.size(), stride},
                     shape.rows, shape.cols, out);
}

Contract Svd::contract(const Layout& layout) const {
  Contract contract{
      .kind = Contract::Kind::rounding, .input = Contract::Input::model, .grain = Contract::Grain::segment};
  std::size_t largest = 0;
  for (std::size_t i = 0; i < layout.segments().size(); ++i) {
    const MatrixShape shape = shape_of(layout, i);
    if (!is_exact(shape)) largest = std::max(largest, shape.least());
  }
  if (largest == 0) return contract;
  const auto n = static_cast<double>(largest);
  contract.input = Contract::Input::delta;
  if (probes_ > 0) {
    contract.kind = Contract::Kind::unbiased;
    contract.omega = (n - 1) / static_cast<double>(probes_);
    contract.delta = 0;
  } else {
    // The fresh random vector alone finds 1/n of the square of the norm on average, whatever the others find.
    contract.kind = Contract::Kind::contraction;
    contract.delta = 1 / n;
  }
  return contract;
}

void Svd::visit_state(StateVisitor& visitor) {
  auto count = static_cast<std::uint64_t>(warm_.size());
  visitor.visit("svd_matrices", count);
  // A reader takes what was written for what is here, one by one: it fails at the first that is missing.
  std::map<std::uint64_t, std::vector<float>> visited;
  auto next = warm_.begin();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t place = next != warm_.end() ? next->first : 0;
    std::vector<float> vectors;
    if (next != warm_.end()) vectors = std::move((next++)->second);
    const std::string name = fmt::format("svd_vectors_{}", i);
    visitor.visit(fmt::format("svd_place_{}", i), place);
    visitor.visit(name, vectors);
    if (vectors.size() % rank_ != 0 || !kernels::all_finite(vectors)) {
      throw FileError(fmt::format("{} are not {} vectors of finite numbers", name, rank_));
    }
    visited[place] = std::move(vectors);
  }
  warm_ = std::move(visited);
}

}  // namespace sotto
