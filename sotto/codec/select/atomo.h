#pragma once

#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/codec/selection.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// ATOMO's water-filling (Wang et al., NeurIPS 2018): the probabilities p_i = min(1, |e_i| / level) with sum p_i = s
// minimise the variance sum e_i^2 / p_i.
class WaterLevel {
 public:
  // The level for the energies of all these groups together. 0 if all non-zero atoms are sent (s is at least their
  // number); not finite if an energy is not. Linear time: nothing is sorted. REQUIRES s > 0.
  double find(ThreadPool& pool, std::span<const Group> groups, double s);

  void reserve(std::size_t atoms) { candidates_.room(atoms); }

 private:
  // The level if only `candidates` (which are reordered) can reach it; `rest` is the sum of all other magnitudes.
  static double among(std::span<float> candidates, double rest, double s);

  Scratch<float> candidates_;
};

struct AtomoOptions : DenseOption {
  std::string s = "none";
  std::string p = "waterfill";
  std::string scope = "segment";
  void visit(OptionVisitor& v) {
    v.option("s", s, "atoms sent on average: a number, at least 1, or a share such as 5%; none with p=max and p=l2");
    v.option("p", p,
             "probabilities: of least variance; min(1, s e/sum e), as the original code has it; all equal; e/max e; "
             "e/|e|_2",
             {"waterfill", "truncate", "uniform", "max", "l2"});
    v.option("scope", scope,
             "s is for each segment, or for the whole bucket (for each part that scatter_reduce cuts it into)",
             {"segment", "bucket"});
    visit_dense(v);
  }
  // Describes a conflict between options; empty if there is none.
  std::string problem() const;
};

// ATOMO: an atom is sent with probability p and then divided by p, which is unbiased (Wang et al., "ATOMO:
// Communication-efficient Learning via Atomic Sparsification", NeurIPS 2018). The atoms may be entries, coefficients of
// a transform or singular vectors. E|C(x)-x|^2 = sum e^2 (1/p - 1) for orthogonal atoms. If no atom is drawn, nothing
// is sent.
class Atomo final : public Select {
 public:
  using Options = AtomoOptions;
  explicit Atomo(const AtomoOptions& options);

  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override;
  void reserve(std::size_t atoms, std::size_t /*groups*/) override { level_.reserve(atoms); }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override;
  SelectTraits traits() const override {
    return {.dense = options_.most_dense(), .pools = options_.scope == "bucket", .scales = true};
  }
  Contract contract(std::span<const std::size_t> atoms) const override;

 private:
  double budget(std::size_t atoms) const;  // s, the expected number of atoms sent
  // p = min(1, factor * |e|) for atoms of these groups. The factor is not finite if an energy is not.
  double factor(std::span<const Group> groups);
  double omega(std::size_t atoms) const;
  std::size_t draw(const Group& group, double factor, const Streams& streams, std::uint32_t* indices,
                   float* scales) const;

  AtomoOptions options_;
  double s_ = 0;
  bool is_share_ = false;
  WaterLevel level_;
};

}  // namespace sotto
