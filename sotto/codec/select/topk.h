#pragma once

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// What selections of the largest atoms share. They select from each group, or from all groups together
// (traits().pools).
class LargestSelect : public Select {
 public:
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const final;
  void reserve(std::size_t atoms, std::size_t /*groups*/) override { candidates_.reserve(atoms); }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) final;
  Contract contract(std::span<const std::size_t> atoms) const override;

 protected:
  virtual std::size_t most(std::size_t atoms) const = 0;  // how many of `atoms` atoms are sent at most
  // The least share of the square of the norm of `atoms` atoms that is sent.
  virtual double least_share(std::size_t atoms) const = 0;
  // Like select(), but from these groups together, which have `atoms` atoms in all.
  virtual std::size_t select_from(std::span<const Group> groups, std::size_t atoms, std::span<std::uint32_t> indices,
                                  std::span<std::size_t> counts) = 0;

  Candidates candidates_;
};

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
