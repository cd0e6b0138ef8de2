#pragma once

#include <cstdint>
#include <span>

#include "sotto/codec/select/topk.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct ThresholdOptions : DenseOption {
  // At most one of these; none is at = 0, which all elements reach.
  std::optional<double> at, relative, keep, drop;
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("at", at, "elements go that reach this magnitude", Bounds::at_least(0));
    v.option("relative", relative, "elements go that reach this share of the largest magnitude", {0, 1});
    v.option("keep", keep, "about this share of the elements goes, the largest, by an estimate", Bounds::share());
    v.option("drop", drop, "exactly this share of the elements stays, the smallest", {0, 1});
    v.option("scope", scope, "largest magnitudes and shares are found in each segment, or in the whole bucket",
             {"segment", "bucket"});
    visit_dense(v);
  }
  // Describes a conflict between options; empty if there is none.
  std::string problem() const;
  double value() const { return keep ? *keep : drop ? *drop : relative ? *relative : at.value_or(0); }
};

// Sends the elements that reach a threshold, except zeros; their number varies and may be 0. at: Strom,
// Interspeech 2015. relative: a share of the largest magnitude, not of the root mean square, so that the largest
// element is always sent and the stage is a contraction. keep: the estimate of SIDCo (Abdelmoniem et al., "An
// Efficient Statistical-based Gradient Compression Technique for Distributed Training Systems", MLSys 2021), which fits
// an exponential distribution to the excesses over a threshold, in stages; the largest element is always sent. Unlike
// other adaptive thresholds it keeps no state: a message depends on its values alone, so parts, resumes and threads
// change nothing. drop: drops an exact share of the elements, but keeps all that equal the smallest kept one.
class Threshold final : public LargestSelect {
 public:
  using Options = ThresholdOptions;
  explicit Threshold(const ThresholdOptions& options) : options_(options), value_(options.value()) {}

  void reserve(std::size_t atoms, std::size_t /*groups*/) override {
    if (drops()) candidates_.reserve(atoms);
  }
  SelectTraits traits() const override {
    return {.dense = options_.most_dense(), .sends_all = drops() && value_ == 0, .pools = options_.scope == "bucket"};
  }
  Contract contract(std::span<const std::size_t> atoms) const override;

 private:
  bool drops() const { return options_.drop.has_value(); }
  std::size_t kept(std::size_t atoms) const;  // of `atoms` atoms, if a share of them is dropped
  // The threshold for these groups together.
  std::uint32_t least_of(std::span<const Group> groups) const;
  std::size_t most(std::size_t atoms) const override { return atoms; }
  // The largest element is always sent; with `drop`, no dropped element is larger than a sent one.
  double least_share(std::size_t atoms) const override {
    return static_cast<double>(drops() ? kept(atoms) : 1) / static_cast<double>(atoms);
  }
  std::size_t select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts) override;

  ThresholdOptions options_;
  double value_;
};

}  // namespace sotto
