#pragma once

#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto {

// Some ranks of a communicator as a group of their own, numbered in the order given, over the exchanges of that one: so
// with any backend, and counted there, too. Each of these ranks makes it; nobody is asked. Used from the thread of the
// other, which must outlive it; messages of both between one pair stay in order. It cannot be cloned.
class Subgroup final : public Communicator {
 public:
  // REQUIRES ranks of `parent`, each once, and its own among them.
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
  std::vector<Send> sends_;  // with the parent's numbers
  std::vector<Recv> recvs_;
};

}  // namespace sotto
