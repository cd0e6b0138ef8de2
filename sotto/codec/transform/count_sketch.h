#pragma once

#include "sotto/codec/transform/sketch.h"
#include "sotto/kernels/sketch.h"

namespace sotto {

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

}  // namespace sotto
