#pragma once

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/select/dense.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct ThresholdOptions : DenseOption {
  double value = 0;
  std::string kind = "absolute";
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("value", value, "what `kind` says; 0: all elements go", Bounds::at_least(0));
    v.option("kind", kind,
             "elements go that reach: value; value (at most 1) times the largest magnitude; a magnitude that about the "
             "share `value` of them reaches, estimated; the magnitude below which the share `value` of them lies",
             {"absolute", "relative", "adaptive", "drop"});
    v.option("scope", scope, "largest magnitudes and shares are those of each segment, or of the whole bucket",
             {"segment", "bucket"});
    visit_dense(v);
  }
  // What no single option can be blamed for; empty when there is nothing.
  std::string problem() const;
};

// The elements that reach a threshold, zeros excepted: their number varies, and may be none.
// absolute: Strom, Interspeech 2015. relative: of the largest magnitude, not of the root mean square, since then the
// largest element always goes, whatever the values are: a contraction. adaptive: the estimate of SIDCo (Abdelmoniem et
// al., "An Efficient Statistical-based Gradient Compression Technique for Distributed Training Systems", MLSys 2021):
// excesses over a threshold are taken for exponentially distributed, in stages; the largest element always goes. Of the
// adaptive ones it is the one that remembers nothing: a message depends on its values alone, so that parts, resumes and
// threads change nothing. drop: the masking mode, exact, with all that are as large as the smallest that goes.
class Threshold final : public Select {
 public:
  using Options = ThresholdOptions;
  explicit Threshold(const ThresholdOptions& options) : options_(options) {}

  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override;
  void reserve(std::size_t atoms, std::size_t /*groups*/) override {
    if (drops()) candidates_.reserve(atoms);
  }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override;
  std::size_t dense() const override { return options_.most_dense(); }
  bool sends_all() const override { return drops() && options_.value == 0; }
  bool pools() const override { return options_.scope == "bucket"; }
  Contract contract(std::span<const std::size_t> atoms) const override;

 private:
  bool drops() const { return options_.kind == "drop"; }
  std::size_t kept(std::size_t atoms) const;  // of so many atoms, when a share of them is dropped
  // Of these groups together.
  std::uint32_t least_of(std::span<const Group> groups) const;
  std::size_t select_from(std::span<const Group> groups, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts);

  ThresholdOptions options_;
  Candidates candidates_;
};

}  // namespace sotto
