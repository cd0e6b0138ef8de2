#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/codec/amount.h"
#include "sotto/codec/stage.h"
#include "sotto/codec/transform/hard_thresholding.h"
#include "sotto/core/options.h"

namespace sotto {

struct ProjectionOptions {
  std::string rows = "20%";
  std::string keep = "2%";
  std::int64_t chunk = 4096;
  std::int64_t iterations = 20;
  std::int64_t seed = 0;
  void visit(OptionVisitor& v) {
    v.option("rows", rows, "coefficients that are sent of a chunk: a number, or a share such as 20% of its elements");
    v.option("keep", keep,
             "elements of a chunk that are recovered: a number, or a share; a quarter of the rows at most");
    v.option("chunk", chunk, "elements that are projected together, a power of two", Bounds{4, 1U << 16});
    v.option("iterations", iterations, "steps of the recovery", Bounds{1, 1000});
    v.option("seed", seed, "of the choice of rows, which is the same in every step", Bounds{0, 4294967295.0});
  }
  // What no single option can be blamed for; empty when there is nothing.
  std::string problem() const;
};

// Compressed sensing: a chunk's random projection, `rows` rows drawn once and for all of its Hadamard transform after
// fixed signs, from which a sparse chunk is recovered by iterative hard thresholding (hard_thresholding.h). Linear, so
// a sum of projections is the projection of the sum, and what comes back behind an all-reduce is what is large in the
// sum. What is left of a piece behind its chunks is filled up with zeros, or goes as it is where that is less.
class Projection final : public Transform {
 public:
  using Options = ProjectionOptions;
  explicit Projection(const ProjectionOptions& options);

  Atoms atoms(const Layout& layout, const Piece& piece) const override;  // a coefficient each, or an element
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;
  bool linear() const override { return true; }
  bool additive() const override { return false; }
  Contract contract(const Layout& layout) const override;

 private:
  std::size_t chunk() const { return static_cast<std::size_t>(options_.chunk); }
  // Of `elements`, how many chunks are projected, the last perhaps filled up; what is behind them goes as it is.
  std::size_t chunks(std::size_t elements) const;

  ProjectionOptions options_;
  std::vector<std::uint32_t> rows_;  // ascending
  HardThresholding recovery_;
  std::vector<float> lanes_;
  std::vector<float> measured_;
};

}  // namespace sotto
