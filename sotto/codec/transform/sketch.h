#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sotto/codec/amount.h"
#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/codec/transform/streamed_largest.h"
#include "sotto/core/options.h"

namespace sotto {

struct SketchOptions {
  std::int64_t rows = 5;
  std::string columns = "5%";
  std::string keep = "0.5%";
  std::int64_t seed = 0;
  void visit(OptionVisitor& v) {
    v.option("rows", rows, "independent estimates of each element, an odd number", Bounds{1, 15});
    v.option("columns", columns, "cells of a row: a number, or a share such as 5% of a segment's elements");
    v.option("keep", keep, "elements of largest estimate that are decoded: a number, or a share; 100%: all of them");
    v.option("seed", seed, "seed of the hash functions, which are the same in every step", Bounds{0, 4294967295.0});
  }
  // Describes an invalid combination of options; empty if there is none.
  std::string problem() const;
};

// Each element is added to one cell of each row, and estimated from its cells. This is linear, so a sum of sketches is
// the sketch of the sum. The elements to return are chosen when they are estimated; after an all-reduce these are the
// largest of the sum. A piece whose sketch would not be smaller is sent unchanged.
//
// The elements of a segment are divided into chunks of 4096. A hash puts each chunk into a window of a limited number
// of columns of a row, and each element into a column of the window, so that its cells stay in the cache. Two elements
// of different chunks collide with probability 1 / columns, as without windows.
class Sketch : public Transform {
 public:
  Atoms atoms(const Layout& layout, const Piece& piece) const final;  // each is a cell or an element
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) final;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) final;
  TransformTraits traits() const final { return {.linear = true}; }
  Contract contract(const Layout& layout) const final;

 protected:
  // There are `sheets` sketches, one after the other.
  Sketch(const SketchOptions& options, std::size_t sheets);

  std::size_t rows() const { return static_cast<std::size_t>(options_.rows); }
  // Adds or reads a few elements in one window of a row; kernels/sketch.h defines the places. The same window of the
  // next sheet is `sheet` cells further.
  virtual void add(std::span<const float> values, std::span<const std::uint32_t> places, float* cells,
                   std::size_t sheet) const = 0;
  virtual void read(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) const = 0;
  // Computes an estimate of each element from what was read of each row, for each sheet in turn; overwrites `read`.
  virtual void join(std::span<float> read, std::span<float> out) const = 0;

 private:
  struct Shape {
    std::size_t windows = 0, width = 0;  // of a row; no windows: elements are sent unchanged
    std::size_t row() const { return windows * width; }
  };
  Shape shape(std::size_t elements) const;
  std::size_t find_places(const Shape& shape, std::size_t row, std::size_t number,
                          std::span<std::uint32_t> places) const;
  void estimate(const Shape& shape, std::size_t number, std::span<const float> cells, std::span<float> out) const;

  SketchOptions options_;
  std::size_t sheets_;
  Amount columns_, keep_;
  Scratch<float> cells_;
  StreamedLargest largest_;
};

}  // namespace sotto
