#pragma once

#include "sotto/codec/select/dense.h"
#include "sotto/codec/select/random_share.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct RandomKOptions : DenseOption {
  double ratio = 0.01;
  bool shared = true;
  bool unbiased = false;
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements that is sent, rounded up", Bounds::share());
    v.option("shared", shared, "all ranks send the same ones, without indices, and all_reduce can sum them");
    v.option("unbiased", unbiased, "multiply what is sent by n/k; not after a memory, which sends the rest later");
    v.option("scope", scope, "the share is of each segment, or of the whole bucket", {"segment", "bucket"});
    visit_dense(v);
  }
};

// Sends k = ceil(ratio n) random elements, each with probability k/n (Stich, Cordonnier, Jaggi, "Sparsified SGD with
// Memory", NeurIPS 2018; Wangni et al., NeurIPS 2018). Unscaled: E|C(x)-x|^2 = (1 - k/n) |x|^2, for error feedback,
// which sends the other elements later. Scaled by n/k: unbiased, E|C(x)-x|^2 = (n/k - 1) |x|^2; with error feedback
// this would not be a contraction, and the residual would grow without bound.
class RandomK final : public Select {
 public:
  using Options = RandomKOptions;
  explicit RandomK(const RandomKOptions& options)
      : options_(options),
        share_{.ratio = options.ratio, .pools = options.scope == "bucket", .unbiased = options.unbiased} {}

  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override {
    return share_.limits(atoms, each);
  }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override {
    return share_.select(pool(), groups, streams, indices, counts, scales);
  }
  SelectTraits traits() const override {
    return {.dense = options_.most_dense(),
            .sends_all = options_.ratio == 1,
            .pools = share_.pools,
            .scales = options_.unbiased,
            .blind = true,
            .shared = options_.shared};
  }
  Contract contract(std::span<const std::size_t> atoms) const override {
    Contract contract = share_.contract(atoms);
    contract.chance = options_.shared ? Contract::Chance::shared : Contract::Chance::own;
    return contract;
  }

 private:
  RandomKOptions options_;
  RandomShare share_;
};

}  // namespace sotto
