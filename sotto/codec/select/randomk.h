#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Selects a random share of the atoms, or of their blocks of `block` atoms: of each group, or of all groups together
// (`pools`).
struct RandomShare {
  double ratio = 0.01;
  bool pools = false;
  bool unbiased = false;  // selected atoms are scaled by n/k
  std::size_t block = 1;

  std::size_t blocks(std::size_t atoms) const { return (atoms + block - 1) / block; }
  // Like the functions of Select.
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const;
  std::size_t select(ThreadPool& pool, std::span<const Group> groups, const Streams& streams,
                     std::span<std::uint32_t> indices, std::span<std::size_t> counts, std::span<float> scales) const;
  // Unscaled: E|C(x)-x|^2 = (1 - k/n) |x|^2; scaled by n/k: (n/k - 1) |x|^2, for the norm of each group or of all
  // together.
  Contract contract(std::span<const std::size_t> atoms) const;
};

// Draws k = share_of(ratio, n) of n numbers, each with probability exactly k/n. The numbers 0 .. n-1 lie on a circle,
// which is cut into k stretches of length n/k, from a random place on. One number is drawn from each stretch. Writes
// `first` + each drawn number, in ascending order, and returns k; the time is O(k), not O(n). The random numbers are
// at(number) for the place and quick(number + s) for stretch s. REQUIRES n < 2^32.
std::size_t take_random_share(ThreadPool& pool, double ratio, std::size_t n, const ElementStream& stream,
                              std::uint32_t number, std::uint32_t first, std::uint32_t* out);

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
