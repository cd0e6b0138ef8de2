#pragma once

#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto {

// Some ranks of a communicator as their own group, numbered in the given order. It uses the parent's exchanges, so
// it works with any backend, and its traffic counts there, too. Each of these ranks makes it, without communication. It
// is used from the parent's thread, and the parent must outlive it. Messages of both between one pair of ranks stay in
// order. It cannot be cloned.
class Subgroup final : public Communicator {
 public:
  // REQUIRES distinct ranks of `parent`, including its own.
  Subgroup(Communicator& parent, std::vector<int> ranks);

  std::string_view name() const override { return parent_.name(); }
  bool goes_in_rounds() const override { return parent_.goes_in_rounds(); }
  int number(int rank) const override { return parent_.number(ranks_.at(static_cast<std::size_t>(rank))); }
  void give_up(const std::string& reason) override { parent_.give_up(reason); }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override;
  std::unique_ptr<Communicator> do_clone() override;

 private:
  Communicator& parent_;
  std::vector<int> ranks_;
  std::vector<Send> sends_;  // with the parent's rank numbers
  std::vector<Recv> recvs_;
};

}  // namespace sotto
