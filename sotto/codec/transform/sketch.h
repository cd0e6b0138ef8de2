#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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
    v.option("seed", seed, "of the hash functions, which are the same in every step", Bounds{0, 4294967295.0});
  }
  // What no single option can be blamed for; empty when there is nothing.
  std::string problem() const;
};

// Elements are added to one cell of each row, and are estimated from all of theirs: linear, so a sum of sketches is the
// sketch of the sum. Which elements come back is decided where they are estimated, so behind an all-reduce those of the
// sum. A piece of which the sketch would not be smaller goes as it is.
//
// Elements of a segment fall into chunks of 4096, each of which a hash puts into a window of at most as many columns of
// a row, within which each element has a column by a hash of its own: so cells stay in the cache. Two elements of
// different chunks meet as often as anywhere, with probability 1 / columns.
class Sketch : public Transform {
 public:
  Atoms atoms(const Layout& layout, const Piece& piece) const final;  // a cell each, or an element
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) final;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) final;
  bool linear() const final { return true; }
  bool additive() const final { return false; }
  Contract contract(const Layout& layout) const final;

 protected:
  // `sheets` sketches stand one behind the other.
  Sketch(const SketchOptions& options, std::size_t sheets);

  std::size_t rows() const { return static_cast<std::size_t>(options_.rows); }
  // Of a few elements in one window of a row; places are those of kernels/sketch.h. The same window of the next sheet
  // stands `sheet` cells further on.
  virtual void add(std::span<const float> values, std::span<const std::uint32_t> places, float* cells,
                   std::size_t sheet) const = 0;
  virtual void read(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) const = 0;
  // What was read of each row, of each sheet in turn, makes one estimate of each element; `read` is void then.
  virtual void join(std::span<float> read, std::span<float> out) const = 0;

 private:
  struct Shape {
    std::size_t windows = 0, width = 0;  // of a row; no windows: elements as they are
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
