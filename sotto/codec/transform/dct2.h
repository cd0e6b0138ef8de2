#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct Dct2Options {
  std::int64_t side = 64;
  void visit(OptionVisitor& v) {
    v.option("side", side,
             "tiles have the largest sides up to this one that divide the sides of the tensor, taken as a matrix",
             Bounds{1, 128});
  }
};

// The cosine transform (type II, orthonormal) of tiles of a matrix, in both directions, as in DeMo (Peng, Quesnelle,
// Kingma, 2024). A tensor (a, b, c, ...) is a matrix (a, b*c*...); the tiles of a vector are runs. Atoms are
// coefficients: tile by tile, row by row. Whole segments only. Along a side whose length is a prime above the option
// `side`, tiles have length one, and the transform changes nothing in that direction.
class Dct2 final : public Transform {
 public:
  using Options = Dct2Options;
  explicit Dct2(const Dct2Options& options) : options_(options) {}

  Atoms atoms(const Layout& layout, const Piece& piece) const override;
  TransformTraits traits() const override { return {.chunks = true, .linear = true, .additive = true}; }
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;
  Contract contract(const Layout& /*layout*/) const override {
    return {.kind = Contract::Kind::rounding, .input = Contract::Input::model, .grain = Contract::Grain::segment};
  }

 private:
  struct Tiles {
    std::size_t cols = 0;               // of the matrix
    std::size_t height = 1, width = 1;  // of a tile
    std::size_t size() const { return height * width; }
    // Where tile number `tile` starts in the matrix.
    std::size_t begin(std::size_t tile) const {
      const std::size_t across = cols / width;
      return tile / across * height * cols + tile % across * width;
    }
  };
  struct Basis {
    std::vector<float> rows, columns;  // row k is cosine k; `columns` is the transpose
  };
  Tiles tiles_of(const Layout& layout, const Piece& piece) const;
  const Basis& basis(std::size_t size);

  Dct2Options options_;
  std::map<std::size_t, Basis> bases_;
  Scratch<float> half_, tile_;  // a tile transformed in one direction, and its coefficients or elements
};

}  // namespace sotto
