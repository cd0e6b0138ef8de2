#pragma once

#include <cstdint>
#include <map>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/codec/transform/range_finder.h"
#include "sotto/core/options.h"
#include "sotto/kernels/matrix.h"

namespace sotto {

struct SvdOptions {
  std::int64_t rank = 128;
  std::int64_t exact = 512;
  std::string reshape = "rows";
  void visit(OptionVisitor& v) {
    v.option("rank", rank, "the most singular triplets that are looked for in a matrix that is not decomposed exactly",
             Bounds{1, 4096});
    v.option("exact", exact, "matrices with at most so many rows or columns are decomposed exactly", Bounds{0, 32768});
    v.option(
        "reshape", reshape,
        "a tensor (a, b, c, ...) as (a, b*c*...), or as ATOMO's original code has it: (a*b/2, 2*c*...), where c*... "
        "is above 1 and a*b even; a vector of n as (n/2, 2)",
        {"rows", "halves"});
  }
};

// The shape of a tensor (a, b, c, ...) as a matrix: (a, b*c*...), and a single row if it has one dimension or none.
// With `halves` as in ATOMO's original code: (a*b/2, 2*c*...) if c*... is above 1, and (n/2, 2) for a vector. The
// original fails if the halved number is odd; here such a tensor keeps its shape without `halves`.
MatrixShape matrix_shape(std::span<const std::int64_t> tensor, bool halves = false);

// Singular triplets: atoms u (sigma v)^T of energy sigma, whole segments only. A one-dimensional segment is one atom.
//
// For any orthonormal basis u_i of the smaller dimension, A = sum_i u_i (A^T u_i)^T, and these atoms are orthogonal.
// Only rounding errors are thus lost, and an unbiased selection (atomo) stays unbiased. Its variance is least if the
// u_i are the eigenvectors of A A^T. Matrices with at most `exact` rows or columns use these. For larger matrices, a
// range finder (range_finder.h) estimates the leading vectors, and arbitrary vectors complete the basis. The atoms of
// these arbitrary vectors all get the same energy. Only atoms that are sent are computed.
class Svd final : public Transform {
 public:
  using Options = SvdOptions;
  explicit Svd(const SvdOptions& options);

  TransformTraits traits() const override { return {.factors = true}; }
  Atoms atoms(const Layout& layout, const Piece& piece) const override;
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void write_factors(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                     std::span<const std::uint32_t> selected, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;
  Contract contract(const Layout& layout) const override;
  void visit_state(StateVisitor& visitor) override;

 private:
  // What forward() found for a matrix.
  struct Found {
    bool finite = true;
    Tridiagonal exact;
    Subspace leading;
  };

  MatrixShape shape_of(const Layout& layout, std::size_t segment) const;
  bool is_exact(const MatrixShape& shape) const;
  static std::uint64_t place_of(const Piece& piece, const Streams& streams) {
    return (std::uint64_t{streams.bucket} << 32U) | piece.segment;
  }

  SvdOptions options_;
  std::size_t rank_, exact_;
  Eigenbasis eigenbasis_;
  RangeFinder range_finder_;
  std::map<std::uint64_t, Found> found_;  // by bucket and segment
  Scratch<double> eigenvalues_;
};

}  // namespace sotto
