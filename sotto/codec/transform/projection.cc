#include "sotto/codec/transform/projection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/codec/amount.h"
#include "sotto/codec/transform/row_walk.h"
#include "sotto/codec/transform/signed_hadamard.h"
#include "sotto/core/error.h"
#include "sotto/kernels/fourier.h"
#include "sotto/kernels/hash.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

constexpr std::size_t lanes = kernels::fourier_lanes;

std::size_t amount(const char* option, const std::string& text, std::int64_t chunk) {
  return Amount::parse(option, text).of(static_cast<std::size_t>(chunk));
}

// Returns the rows of smallest hash.
std::vector<std::uint32_t> draw_rows(std::size_t chunk, std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> rows(chunk);
  std::iota(rows.begin(), rows.end(), 0U);
  std::ranges::nth_element(rows, rows.begin() + static_cast<std::ptrdiff_t>(count - 1), {},
                           [&](std::uint32_t row) { return kernels::hash64(row, seed); });
  rows.resize(count);
  std::ranges::sort(rows);
  return rows;
}

}  // namespace

std::string ProjectionOptions::problem() const {
  if (!std::has_single_bit(static_cast<std::uint64_t>(chunk))) return "chunk must be a power of two";
  try {
    if (4 * amount("keep", keep, chunk) > amount("rows", rows, chunk)) {
      return "keep must be a quarter of the rows at most: fewer rows do not say where the elements are";
    }
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Projection::Projection(const ProjectionOptions& options)
    : options_(options),
      rows_(draw_rows(chunk(), amount("rows", options.rows, options.chunk), static_cast<std::uint64_t>(options.seed))),
      recovery_(chunk(), rows_, amount("keep", options.keep, options.chunk),
                static_cast<std::size_t>(options.iterations)),
      chunks_(chunk() * lanes),
      lanes_(chunk() * lanes),
      measured_(rows_.size() * lanes) {}

std::size_t Projection::chunks(std::size_t elements) const {
  return elements / chunk() + (elements % chunk() > rows_.size() ? 1 : 0);
}

Atoms Projection::atoms(const Layout& /*layout*/, const Piece& piece) const {
  const std::size_t elements = piece.range.size(), projected = chunks(elements);
  const std::size_t rest = elements - std::min(elements, projected * chunk());
  return {projected * rows_.size() + rest, 1, 0, piece.first / chunk() * rows_.size()};
}

void Projection::forward(const Layout&, const Piece& piece, const Streams&, std::span<const float> values,
                         std::span<float> /*energies: the coefficients*/, std::span<float> coefficients) {
  const std::size_t projected = chunks(values.size());
  const std::size_t end = std::min(projected * chunk(), values.size());
  for (std::size_t done = 0; done < projected; done += lanes) {
    const std::size_t used = std::min(lanes, projected - done);
    const std::size_t first = done * chunk();
    signed_hadamard(values.subspan(first, std::min(used * chunk(), end - first)), piece.first + first, chunk(), chunks_,
                    lanes_);
    for (std::size_t l = 0; l < used; ++l) {
      float* out = &coefficients[(done + l) * rows_.size()];
      for (std::size_t j = 0; j < rows_.size(); ++j) out[j] = lanes_[rows_[j] * lanes + l];
    }
  }
  std::ranges::copy(values.subspan(end), coefficients.begin() + static_cast<std::ptrdiff_t>(projected * rows_.size()));
}

void Projection::add_inverse(const Layout&, const Piece& piece, std::span<const std::uint32_t> selected,
                             std::span<const float> coefficients, float scale, std::span<float> out) {
  RowWalk walk(selected, coefficients, 1);
  const std::size_t projected = chunks(out.size()), m = rows_.size();
  for (std::size_t done = 0; done < projected; done += lanes) {
    const std::size_t used = std::min(lanes, projected - done);
    std::ranges::fill(measured_, 0.0F);
    const bool any = walk.take((done + used) * m, [&](std::size_t atom, const float* coefficient) {
      measured_[atom - done * m] = *coefficient;
    });
    if (!any) continue;
    const std::span<const float> found = recovery_.recover(std::span(measured_).first(used * m));
    const std::size_t at = done * chunk();
    const auto part = out.subspan(at, std::min(used * chunk(), out.size() - at));
    with_fixed_signs(found.first(part.size()), piece.first + at, 1, chunks_);
    kernels::axpy(scale, std::span(chunks_).first(part.size()), part);
  }
  walk.take(projected * m + out.size(), [&](std::size_t atom, const float* value) {
    out[projected * chunk() + (atom - projected * m)] += scale * *value;
  });
}

Contract Projection::contract(const Layout& /*layout*/) const {
  // The error depends on all elements that are not among a chunk's largest.
  return {
      .kind = Contract::Kind::none, .omega = INFINITY, .delta = 0, .grain = Contract::Grain::block, .block = chunk()};
}

}  // namespace sotto
