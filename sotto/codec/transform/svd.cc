#include "sotto/codec/transform/svd.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/kernels/reduce.h"

namespace sotto {

MatrixShape matrix_shape(std::span<const std::int64_t> tensor, bool halves) {
  std::size_t numel = 1;
  for (const std::int64_t size : tensor) numel *= static_cast<std::size_t>(size);
  if (numel == 0) return {1, 0};
  if (tensor.size() < 2) return halves && numel % 2 == 0 ? MatrixShape{numel / 2, 2} : MatrixShape{1, numel};
  const auto rows = static_cast<std::size_t>(tensor[0]);
  const std::size_t pairs = rows * static_cast<std::size_t>(tensor[1]);
  if (!halves || pairs == numel || pairs % 2 != 0) return {rows, numel / rows};
  return {pairs / 2, 2 * (numel / pairs)};
}

Svd::Svd(const SvdOptions& options)
    : options_(options),
      rank_(static_cast<std::size_t>(options.rank)),
      exact_(static_cast<std::size_t>(options.exact)) {}

MatrixShape Svd::shape_of(const Layout& layout, std::size_t segment) const {
  return matrix_shape(layout.segments()[segment].shape, options_.reshape == "halves");
}

bool Svd::is_exact(const MatrixShape& shape) const { return shape.least() <= std::max(exact_, rank_); }

Atoms Svd::atoms(const Layout& layout, const Piece& piece) const {
  const MatrixShape shape = shape_of(layout, piece.segment);
  if (piece.range.size() != shape.rows * shape.cols) throw std::logic_error("svd: a part cuts through a matrix");
  return {shape.least(), shape.rows + shape.cols, shape.rows, 0};
}

void Svd::forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                  std::span<float> energies, std::span<float>) {
  const MatrixShape shape = shape_of(layout, piece.segment);
  if (values.empty()) return;
  Found& found = found_[place_of(piece, streams)];
  found.finite = kernels::all_finite(values);
  if (found.finite && is_exact(shape)) {
    const auto squares = eigenvalues_.room(shape.least());
    const bool wide = shape.rows <= shape.cols;
    found.finite = eigenbasis_.find(
        pool(), {values.data(), shape.least(), shape.most(), wide ? shape.cols : 1, wide ? 1 : shape.cols}, found.exact,
        squares);
    // Smaller singular values are rounding errors of the float vectors.
    constexpr double unit = 0x1p-24;
    const double least = unit * unit * squares[0];
    for (std::size_t i = 0; i < energies.size(); ++i) {
      energies[i] = squares[i] == 0 ? 0 : static_cast<float>(std::sqrt(std::max(squares[i], least)));
    }
  } else if (found.finite) {
    found.finite = range_finder_.find(pool(), values, shape, rank_, streams.stream(Purpose::transform, piece.segment),
                                      found.leading, energies);
  }
  found.finite = found.finite && kernels::all_finite(energies);
  if (!found.finite) std::ranges::fill(energies, std::numeric_limits<float>::quiet_NaN());
}

void Svd::write_factors(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                        std::span<const std::uint32_t> selected, std::span<float> rows) {
  const MatrixShape shape = shape_of(layout, piece.segment);
  const std::size_t stride = shape.rows + shape.cols;
  const kernels::Vectors left{rows.data(), selected.size(), stride};
  const kernels::Vectors right{rows.data() + shape.rows, selected.size(), stride};
  const auto constant = [](kernels::Vectors v) { return kernels::ConstVectors{v.data, v.count, v.stride}; };
  const bool wide = shape.rows <= shape.cols;
  if (values.empty()) return;
  const Found& found = found_.at(place_of(piece, streams));
  if (!found.finite) {
    std::ranges::fill(rows, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  if (is_exact(shape)) {
    eigenbasis_.write(found.exact, selected, wide ? left : right);
  } else {
    range_finder_.write(found.leading, shape.least(), selected, wide ? left : right);
  }
  if (wide) {
    kernels::multiply_transposed(values, shape.rows, shape.cols, constant(left), right);
  } else {
    kernels::multiply(values, shape.rows, shape.cols, constant(right), left);
  }
}

void Svd::add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                      std::span<const float> rows, float scale, std::span<float> out) {
  const MatrixShape shape = shape_of(layout, piece.segment);
  const std::size_t stride = shape.rows + shape.cols;
  kernels::add_outer(scale, {rows.data(), selected.size(), stride}, {rows.data() + shape.rows, selected.size(), stride},
                     shape.rows, shape.cols, out);
}

Contract Svd::contract(const Layout& layout) const {
  bool draws = false;  // whether the start vectors of a search are random
  for (std::size_t s = 0; s < layout.segments().size(); ++s) draws = draws || !is_exact(shape_of(layout, s));
  return {.kind = Contract::Kind::rounding,
          .input = Contract::Input::model,
          .grain = Contract::Grain::segment,
          .chance = draws ? Contract::Chance::own : Contract::Chance::none};
}

// Stores only the start vectors of the searches; everything else is found again in each step.
void Svd::visit_state(StateVisitor& visitor) {
  auto count = static_cast<std::uint64_t>(
      std::ranges::count_if(found_, [](const auto& entry) { return !entry.second.leading.start.empty(); }));
  visitor.visit("svd_matrices", count);
  // A StateVisitor that reads replaces the matrices one by one, and fails at the first that is missing.
  std::map<std::uint64_t, std::vector<float>> visited;
  auto next = found_.begin();
  for (std::uint64_t i = 0; i < count; ++i) {
    while (next != found_.end() && next->second.leading.start.empty()) ++next;
    std::uint64_t place = next != found_.end() ? next->first : 0;
    std::vector<float> vectors;
    if (next != found_.end()) vectors = std::move((next++)->second.leading.start);
    const std::string name = fmt::format("svd_vectors_{}", i);
    visitor.visit(fmt::format("svd_place_{}", i), place);
    visitor.visit(name, vectors);
    if (!kernels::all_finite(vectors)) throw FileError(name + " are not finite numbers");
    visited[place] = std::move(vectors);
  }
  for (auto& [place, found] : found_) found.leading.start.clear();
  for (auto& [place, vectors] : visited) found_[place].leading.start = std::move(vectors);
}

}  // namespace sotto
