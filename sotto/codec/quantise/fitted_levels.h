#pragma once

#include "sotto/codec/quantise/level_sample.h"
#include "sotto/codec/quantise/levels.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct FittedLevelsOptions {
  std::int64_t bits = 3;
  std::int64_t bucket = 512;
  std::int64_t sample = 4096;
  void visit(OptionVisitor& v) {
    v.option("bits", bits, "bits of magnitude; one more of sign goes with every value", Bounds{1, 6});
    v.option("bucket", bucket, "values that share a norm, their largest magnitude", Bounds{1, 1U << 30});
    v.option("sample", sample, "values of a segment, at most, that its levels are fitted to", Bounds{1, 1U << 20});
  }
};

// What alq and zipml share: stochastic rounding without bias to 2^bits levels and their negatives, as in qsgd, but the
// levels are fitted to each segment, and are part of its side information. The first level is 0 and the last is the
// norm of the value's bucket; the others are shares of it. The sample of the segment to which they are fitted is
// weighted by the squares of the norms, so that what they minimise is E |C(x)-x|^2.
class FittedLevels : public Quantise, public WholeUnits {
 public:
  std::size_t side_bytes(std::size_t values) const override {
    return values == 0 ? 0 : head() + blocks_.side_bytes(values);
  }
  std::size_t max_packed_bytes(std::size_t values) const override { return kernels::packed_bytes(values, width()); }
  std::size_t packed_size(std::span<const std::byte>, std::size_t values) const override {
    return max_packed_bytes(values);
  }
  void list_runs(std::span<const std::byte>, std::size_t values, std::vector<SymbolRun>& runs) const override {
    runs.push_back({.width = width(), .count = values});
  }
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;

 protected:
  FittedLevels(const FittedLevelsOptions& options, const char* name)
      : name_(name),
        bits_(static_cast<unsigned>(options.bits)),
        sample_size_(static_cast<std::size_t>(options.sample)),
        blocks_{static_cast<std::size_t>(options.bucket)} {}
  std::size_t count() const { return std::size_t{1} << bits_; }  // of the levels, 0 and 1 among them

 private:
  // Fills in ascending levels between the first, 0, and the last, 1.
  virtual void fit(const LevelSample& sample, std::span<float> levels) = 0;

  unsigned width() const { return bits_ + 1; }
  std::size_t head() const { return (count() - 2) * sizeof(float); }  // bytes of the levels; the norms follow

  const char* name_;  // of the stage, for errors
  unsigned bits_;
  std::size_t sample_size_;
  NormBlocks blocks_;
  LevelSample sample_;
};

}  // namespace sotto
