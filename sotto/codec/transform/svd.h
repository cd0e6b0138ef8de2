#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"
#include "sotto/kernels/matrix.h"

namespace sotto {

struct SvdOptions {
  std::int64_t rank = 16;
  std::int64_t exact = 64;
  std::int64_t probes = 1;
  std::string reshape = "rows";
  void visit(OptionVisitor& v) {
    v.option("rank", rank, "singular triplets of a matrix that is not decomposed exactly", Bounds{1, 127});
    v.option("exact", exact, "matrices with at most so many rows or columns are decomposed exactly", Bounds{0, 128});
    v.option("probes", probes, "random atoms that stand for what `rank` leaves out; without them it is dropped",
             Bounds{0, 64});
    v.option("reshape", reshape,
             "a tensor (a, b, c, ...) as (a, b*c*...), or as the original code has it: (a*b/2, 2*c*...)",
             {"rows", "halves"});
  }
};

struct MatrixShape {
  std::size_t rows = 1, cols = 1;
  std::size_t least() const { return rows < cols ? rows : cols; }
};
// Of a tensor; with one dimension or none it is one row. `halves`: (a*b/2, 2*c*...), where a*b is even.
MatrixShape matrix_shape(std::span<const std::int64_t> tensor, bool halves = false);

// Singular triplets: atoms u (sigma v)^T of energy sigma, whole segments only. One-dimensional segments are one atom.
//
// Small matrices are decomposed exactly, by the eigenvectors of A A^T (or A^T A) in doubles: A = sum_i u_i (A^T u_i)^T
// for any orthonormal u_i, so nothing but the rounding of floats is lost. Of larger ones the leading `rank` triplets
// come from a randomised range finder (Halko, Martinsson, Tropp, 2011) that begins with the right singular vectors of
// the step before and one fresh random vector: two passes over the matrix. What they leave out, R, is stood for by
// `probes` atoms z (R^T z)^T with random signs z along the smaller dimension, whose mean is R: so the sum of all atoms
// is unbiased, and a selection that is unbiased (atomo) keeps it so. E|C(x)-x|^2 = (min(rows, cols) - 1) / probes *
// |R|^2.
class Svd final : public Transform {
 public:
  using Options = SvdOptions;
  explicit Svd(const SvdOptions& options);
  ~Svd() override;

  std::string sentence() const override { return record_options("svd", options_); }
  bool factors() const override { return true; }
  Atoms atoms(const Layout& layout, const Piece& piece) const override;
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) const override;
  Contract contract(const Layout& layout) const override;
  void visit_state(StateVisitor& visitor) override;

 private:
  struct Eigenvectors;  // of a small symmetric matrix
  struct Target {       // what forward() fills in
    MatrixShape shape;
    std::span<const float> matrix;
    std::span<float> energies, rows;
    kernels::Vectors left(std::size_t first, std::size_t count) const;
    kernels::Vectors right(std::size_t first, std::size_t count) const;
  };

  MatrixShape shape_of(const Layout& layout, std::size_t segment) const;
  bool is_exact(const MatrixShape& shape) const;
  // False when numbers on the way are too large for floats.
  bool decompose(const Target& target);
  bool approximate(const Target& target, const ElementStream& stream, std::vector<float>& warm);
  void add_probes(const Target& target, kernels::ConstVectors signs, kernels::ConstVectors products);

  SvdOptions options_;
  std::size_t rank_, exact_, probes_;
  std::unique_ptr<Eigenvectors> eigenvectors_;
  std::map<std::uint64_t, std::vector<float>> warm_;  // by bucket and segment: right vectors of the step before
  Scratch<float> transposed_, start_, range_, image_;
};

}  // namespace sotto
