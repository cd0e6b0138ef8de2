#pragma once

#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/select/candidates.h"
#include "sotto/codec/select/randomk.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct BlockOptions : DenseOption {
  std::int64_t size = 256;
  double ratio = 0.01;
  std::string pick = "top";
  bool unbiased = false;
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("size", size, "consecutive elements of a block; the last one of a segment may be shorter",
             Bounds{1, 1U << 30});
    v.option("ratio", ratio, "share of the blocks that is sent, rounded up", Bounds::share());
    v.option("pick", pick, "blocks of largest norm; at random; at random, the same ones on all ranks, without indices",
             {"top", "random", "shared"});
    v.option("unbiased", unbiased, "multiply random blocks by n/k, if k of n blocks are sent");
    v.option("scope", scope, "share of the blocks of each segment, or of the whole bucket", {"segment", "bucket"});
    visit_dense(v);
  }
  // Describes a conflict between options; empty if there is none.
  std::string problem() const {
    if (const std::string wrong = DenseOption::problem(); !wrong.empty()) return wrong;
    return unbiased && pick == "top" ? "the largest blocks are never unbiased; pick=random and pick=shared can be" : "";
  }
};

// Selects whole blocks of consecutive elements; the indices number blocks. pick=top takes the blocks of largest l2
// norm, without zeros; ties go to the first block. Otherwise blocks are drawn as randomk draws elements. One random
// block per segment is the smallest choice in "Sparsified SGD with Memory" (Stich, Cordonnier, Jaggi, NeurIPS 2018).
class Block final : public Select {
 public:
  using Options = BlockOptions;
  explicit Block(const BlockOptions& options)
      : options_(options),
        share_{options.ratio, options.scope == "bucket", options.unbiased, static_cast<std::size_t>(options.size)} {}

  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override {
    return share_.limits(atoms, each);
  }
  void reserve(std::size_t atoms, std::size_t groups) override;
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override;
  SelectTraits traits() const override {
    return {.dense = options_.most_dense(),
            .sends_all = options_.ratio == 1,
            .pools = share_.pools,
            .scales = options_.unbiased,
            .blind = options_.pick != "top",
            .shared = options_.pick == "shared",
            .block = share_.block};
  }
  // The largest blocks leave no more error than random ones.
  Contract contract(std::span<const std::size_t> atoms) const override {
    Contract contract = share_.contract(atoms);
    contract.chance = traits().shared             ? Contract::Chance::shared
                      : options_.pick == "random" ? Contract::Chance::own
                                                  : Contract::Chance::none;
    return contract;
  }

 private:
  void find_norms(const Group& group, std::span<float> norms);

  BlockOptions options_;
  RandomShare share_;
  Candidates candidates_;
  Scratch<float> norms_;
  std::vector<Group> of_norms_;
};

}  // namespace sotto
