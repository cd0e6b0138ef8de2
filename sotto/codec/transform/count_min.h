#pragma once

#include "sotto/codec/transform/sketch.h"
#include "sotto/kernels/sketch.h"
#include "sotto/kernels/vector.h"

namespace sotto {

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
