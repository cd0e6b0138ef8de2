#pragma once

#include "sotto/codec/select/dense.h"
#include "sotto/codec/select/largest.h"
#include "sotto/core/options.h"

namespace sotto {

struct TopKOptions : DenseOption {
  double ratio = 0.01;
  std::string scope = "segment";
  std::optional<std::int64_t> count{};
  void visit(OptionVisitor& v) {
    v.option("ratio", ratio, "share of the elements that is sent, rounded up", Bounds::share());
    v.option("scope", scope,
             "the share is of each segment, of the whole bucket, or of each chunk of the transform before it",
             {"segment", "bucket", "chunk"});
    visit_dense(v);
    v.option("count", count, "a number of elements in place of a share, as in topk(count=3)", Bounds{1, 4294967295});
  }
  std::string problem() const {
    return count && ratio != TopKOptions{}.ratio ? "count and ratio both say how many to send: give one"
                                                 : DenseOption::problem();
  }
};

// Sends the k = ceil(ratio * n), or min(n, count), elements of largest magnitude; ties go to the first. Zeros are never
// sent, so there may be fewer. Usually takes one pass over the elements, without sorting.
class TopK final : public LargestSelect {
 public:
  using Options = TopKOptions;
  explicit TopK(const TopKOptions& options) : options_(options) {}

  SelectTraits traits() const override {
    return {.dense = options_.most_dense(),
            .sends_all = options_.ratio == 1 && !options_.count,
            .pools = options_.scope == "bucket",
            .by_chunk = options_.scope == "chunk"};
  }

 private:
  std::size_t most(std::size_t atoms) const override;  // k
  // The dropped elements have at most 1 - k/n of the square of the norm.
  double least_share(std::size_t atoms) const override {
    return static_cast<double>(most(atoms)) / static_cast<double>(atoms);
  }
  std::size_t select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts) override {
    return candidates_.select_largest(pool(), most(atoms), groups, indices, counts);
  }

  TopKOptions options_;
};

}  // namespace sotto
