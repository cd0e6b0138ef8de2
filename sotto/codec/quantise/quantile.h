#pragma once

#include "sotto/codec/quantise/bins.h"
#include "sotto/codec/quantise/samples.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct QuantileOptions {
  std::int64_t bins = 256;
  void visit(OptionVisitor& v) {
    v.option("bins", bins, "bins of equally many values each; one of them is for zeros",
             Bounds{3, static_cast<double>(kernels::most_bins)});
  }
};

// The quantile quantiser of SketchML (Jiang et al., SIGMOD 2018): bins with about equally many values, separate for
// positive and negative values; a value decodes to the middle of its bin. Zeros stay zeros, and no sign changes. Values
// at the ends of a long tail are far from the middle of their bin, so the error has no bound.
//
// The paper finds quantiles with a streaming sketch. Here all values are at hand, and the quantiles of up to 2^15
// non-zero values are exact. If there are more, a sample of at least 2^14 of them is sorted. This changes a bin's share
// by about a tenth, and the error by less than a hundredth. The smallest and largest values are always exact.
class Quantile final : public Quantise, public Bins {
 public:
  using Options = QuantileOptions;
  explicit Quantile(const QuantileOptions& options);

  Packing packing() const override { return Packing::of_width(width_); }
  std::size_t side_bytes(std::size_t values) const override;
  void reserve(std::optional<std::uint64_t> /*place*/, std::size_t values) override { sample_.reserve(values); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t) const override;

  bool find(ThreadPool& pool, std::span<const float> values, std::span<std::byte> side) override;
  void place(std::span<const float> values, std::span<std::uint16_t> bins) const override {
    search_.find(values, bins);
  }
  std::size_t most_bins() const override { return static_cast<std::size_t>(options_.bins); }

 private:
  QuantileOptions options_;
  unsigned width_;
  kernels::BinSearch search_;  // of the current unit
  KeySample sample_;
};

}  // namespace sotto
