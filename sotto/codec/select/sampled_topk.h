#pragma once

#include "sotto/codec/select/dense.h"
#include "sotto/codec/select/largest.h"
#include "sotto/core/options.h"

namespace sotto {

struct SampledTopKOptions : DenseOption {
  double ratio = 0.01;
  double sample = 0.01;
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements that is aimed at; 0.8 to 1.3 times as many are sent, of 1 all",
             Bounds::share());
    v.option("sample", sample, "share of them that is looked at for the threshold, or more where 2/ratio is more",
             Bounds::share());
    v.option("scope", scope, "the share is of each segment, or of the whole bucket", {"segment", "bucket"});
    visit_dense(v);
  }
};

// Sends the elements that reach a threshold estimated from a sample of the segment, or bucket (Deep Gradient
// Compression, Lin et al., ICLR 2018; the corrections are theirs): about k = ceil(ratio * n) elements, faster than
// exactly k. If more than 1.3 k reach it, the k largest of them are sent. If fewer than 0.8 k reach it, the threshold
// is multiplied by 0.8, at most ten times. If k is n, all elements are sent.
class SampledTopK final : public LargestSelect {
 public:
  using Options = SampledTopKOptions;
  explicit SampledTopK(const SampledTopKOptions& options) : options_(options) {}

  SelectTraits traits() const override {
    return {.dense = options_.most_dense(), .sends_all = options_.ratio == 1, .pools = options_.scope == "bucket"};
  }

 private:
  std::size_t most(std::size_t atoms) const override;
  double least_share(std::size_t atoms) const override;
  std::size_t select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts) override;

  SampledTopKOptions options_;
};

}  // namespace sotto
