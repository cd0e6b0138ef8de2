#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto {

// Some ranks of a communicator as their own group, numbered in the given order. It uses the parent's exchanges, so it
// works with any backend, and the parent counts its traffic, too. Each of these ranks makes the subgroup, without
// communication. Use it on the parent's thread; the parent must outlive it. Between a pair of ranks, the messages of
// parent and subgroup stay in one order. It cannot be cloned.
class Subgroup final : public Communicator {
 public:
  // REQUIRES distinct ranks of `parent`, including this rank.
  Subgroup(Communicator& parent, std::vector<int> ranks)
      : Communicator(place_of(parent.rank(), ranks), static_cast<int>(ranks.size()), parent.deadlines()),
        parent_(parent),
        ranks_(std::move(ranks)) {
    for (auto rank = ranks_.begin(); rank != ranks_.end(); ++rank) {
      if (*rank < 0 || *rank >= parent_.size() || std::find(ranks_.begin(), rank, *rank) != rank) {
        throw std::logic_error("Subgroup: not ranks of the communicator, each once");
      }
    }
  }

  std::string_view name() const override { return parent_.name(); }
  bool goes_in_rounds() const override { return parent_.goes_in_rounds(); }
  int number(int rank) const override { return parent_.number(ranks_.at(static_cast<std::size_t>(rank))); }
  void give_up(const std::string& reason) override { parent_.give_up(reason); }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto parents = [this](int peer) { return ranks_[static_cast<std::size_t>(peer)]; };
    sends_.assign(sends.begin(), sends.end());
    recvs_.assign(recvs.begin(), recvs.end());
    for (Send& send : sends_) send.peer = parents(send.peer);
    for (Recv& recv : recvs_) recv.peer = parents(recv.peer);
    parent_.exchange(sends_, recvs_);
    for (std::size_t i = 0; i < recvs.size(); ++i) recvs[i].arrived = recvs_[i].arrived;
  }
  std::unique_ptr<Communicator> do_clone() override {
    throw std::logic_error("Subgroup: clone the communicator that it is of, and make a subgroup of that");
  }

 private:
  static int place_of(int rank, const std::vector<int>& ranks) {
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end()) throw std::logic_error("Subgroup: this rank is none of its ranks");
    return static_cast<int>(found - ranks.begin());
  }

  Communicator& parent_;
  std::vector<int> ranks_;
  std::vector<Send> sends_;  // with the parent's rank numbers
  std::vector<Recv> recvs_;
};

}  // namespace sotto
