#pragma once

#include "sotto/codec/select/candidates.h"
#include "sotto/codec/stage.h"

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

}  // namespace sotto
