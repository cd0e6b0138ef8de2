#pragma once

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/select/dense.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct TopKOptions : DenseOption {
  double ratio = 0.01;
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements that is sent, rounded up", Bounds::share());
    v.option("scope", scope, "the share is of each segment, or of the whole bucket", {"segment", "bucket"});
    visit_dense(v);
  }
};

// The k = ceil(ratio * n) elements of largest magnitude, of equal ones those that stand first; zeros are never sent, so
// there may be fewer. One pass over the elements, as a rule, without sorting them.
class TopK final : public Select {
 public:
  using Options = TopKOptions;
  explicit TopK(const TopKOptions& options) : options_(options) {}

  std::string sentence() const override { return record_options("topk", options_); }
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override;
  void reserve(std::size_t atoms, std::size_t /*groups*/) override { candidates_.reserve(atoms); }
  bool pools() const override { return options_.scope == "bucket"; }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override;
  std::size_t dense() const override { return options_.most_dense(); }
  Contract contract(std::span<const std::size_t> atoms) const override;

 private:
  TopKOptions options_;
  Candidates candidates_;
};

}  // namespace sotto
