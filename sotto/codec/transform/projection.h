#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
    v.option("seed", seed, "seed of the choice of rows, which is the same in every step", Bounds{0, 4294967295.0});
  }
  // Describes an invalid combination of options; empty if there is none.
  std::string problem() const;
};

// Compressed sensing: a random projection of each chunk onto `rows` rows of its Hadamard transform after fixed signs;
// the rows are drawn once and for all. A sparse chunk is recovered by iterative hard thresholding
// (hard_thresholding.h). The projection is linear, so a sum of projections is the projection of the sum, and an
// all-reduce returns the large elements of the sum. The rest of a piece after its whole chunks is padded with zeros, or
// sent unchanged if that is shorter.
class Projection final : public Transform {
 public:
  using Options = ProjectionOptions;
  explicit Projection(const ProjectionOptions& options);

  Atoms atoms(const Layout& layout, const Piece& piece) const override;  // each is a coefficient or an element
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;
  TransformTraits traits() const override { return {.linear = true}; }
  Contract contract(const Layout& layout) const override;

 private:
  std::size_t chunk() const { return static_cast<std::size_t>(options_.chunk); }
  // How many chunks of `elements` elements are projected; the last one may be padded. The elements after them are sent
  // unchanged.
  std::size_t chunks(std::size_t elements) const;

  ProjectionOptions options_;
  std::vector<std::uint32_t> rows_;  // ascending
  HardThresholding recovery_;
  std::vector<float> chunks_, lanes_;
  std::vector<float> measured_;
};

}  // namespace sotto
