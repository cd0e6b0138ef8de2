#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/codec/transform/streamed_largest.h"
#include "sotto/core/options.h"
#include "sotto/kernels/sketch.h"
#include "sotto/kernels/vector.h"

namespace sotto {

// An amount of n: a number, at least 1, or a share such as "5%" of n, rounded up.
class Amount {
 public:
  Amount() = default;
  // ConfigError that names the option.
  static Amount parse(std::string_view option, const std::string& text);

  bool is_share() const { return is_share_; }
  std::size_t of(std::size_t n) const;  // at most n

 private:
  double value_ = 1;
  bool is_share_ = true;
};

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
// largest of the sum. If its sketch would not be smaller, a piece is sent unchanged.
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

// Elements are added with signs from a hash, and an estimate is the median over the rows (Charikar, Chen,
// Farach-Colton, "Finding Frequent Items in Data Streams", 2002; FetchSGD, Rothchild et al., ICML 2020). One row is
// unbiased with an error of |x| / sqrt(columns); the `keep` largest elements are right if they stand out from the rest
// of x. With error feedback `keep` must be a small share of the columns (FetchSGD: a tenth): each kept element adds an
// error, and all errors together must not exceed what was removed.
class CountSketch final : public Sketch {
 public:
  using Options = SketchOptions;
  explicit CountSketch(const SketchOptions& options) : Sketch(options, 1) {}

 protected:
  void add(std::span<const float> values, std::span<const std::uint32_t> places, float* cells,
           std::size_t /*sheet*/) const override {
    kernels::add_signed(values, places, cells);
  }
  void read(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) const override {
    kernels::read_signed(cells, places, out);
  }
  void join(std::span<float> read, std::span<float> out) const override { kernels::median_of_rows(read, rows(), out); }
};

// A baseline for count_sketch: cells only grow, and an estimate is the smallest cell of an element (Cormode,
// Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005). This needs non-negative numbers, so
// positive values and the magnitudes of negative values each have a sketch of rows x columns. An element is the
// difference of the two estimates, each of which is never too small.
class CountMin final : public Sketch {
 public:
  using Options = SketchOptions;
  explicit CountMin(const SketchOptions& options) : Sketch(options, 2) {}

 protected:
  void add(std::span<const float> values, std::span<const std::uint32_t> places, float* cells,
           std::size_t sheet) const override {
    kernels::add_magnitudes(values, places, cells, cells + sheet);
  }
  void read(const float* cells, std::span<const std::uint32_t> places, std::span<float> out) const override {
    kernels::read_cells(cells, places, out);
  }
  void join(std::span<float> read, std::span<float> out) const override {
    const std::size_t size = rows() * out.size();
    kernels::least_of_rows(read.subspan(size), rows(), out);
    kernels::scale(-1, out);
    kernels::least_of_rows(read.first(size), rows(), read.first(out.size()));
    kernels::add(read.first(out.size()), out);
  }
};

}  // namespace sotto
