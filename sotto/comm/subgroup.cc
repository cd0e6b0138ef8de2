#include "sotto/comm/subgroup.h"

#include <algorithm>
#include <stdexcept>

namespace sotto {
namespace {

int place_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::ranges::find(ranks, rank);
  if (found == ranks.end()) throw std::logic_error("Subgroup: this rank is none of its ranks");
  return static_cast<int>(found - ranks.begin());
}

}  // namespace

Subgroup::Subgroup(Communicator& parent, std::vector<int> ranks)
    : Communicator(place_of(parent.rank(), ranks), static_cast<int>(ranks.size()), parent.deadlines()),
      parent_(parent),
      ranks_(std::move(ranks)) {
  for (auto rank = ranks_.begin(); rank != ranks_.end(); ++rank) {
    if (*rank < 0 || *rank >= parent_.size() || std::find(ranks_.begin(), rank, *rank) != rank) {
      throw std::logic_error("Subgroup: not ranks of the communicator, each once");
    }
  }
}

void Subgroup::do_exchange(std::span<const Send> sends, std::span<Recv> recvs) {
  const auto parents = [this](int peer) { return ranks_[static_cast<std::size_t>(peer)]; };
  sends_.assign(sends.begin(), sends.end());
  recvs_.assign(recvs.begin(), recvs.end());
  for (Send& send : sends_) send.peer = parents(send.peer);
  for (Recv& recv : recvs_) recv.peer = parents(recv.peer);
  parent_.exchange(sends_, recvs_);
  for (std::size_t i = 0; i < recvs.size(); ++i) recvs[i].arrived = recvs_[i].arrived;
}

std::unique_ptr<Communicator> Subgroup::do_clone() {
  throw std::logic_error("Subgroup: clone the communicator that it is of, and make a subgroup of that");
}

}  // namespace sotto
