#include "sotto/topology/graph.h"

#include <algorithm>
#include <utility>

namespace sotto {
namespace {

// The number of ranks that can be reached from rank 0, rank 0 included. next(rank) gives the ranks one edge further.
template <class Next>
std::size_t reached(int ranks, Next next) {
  std::vector<char> seen(static_cast<std::size_t>(ranks));
  std::vector<int> open{0};
  seen[0] = 1;
  std::size_t count = 0;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    ++count;
    for (const int peer : next(rank)) {
      if (std::exchange(seen[static_cast<std::size_t>(peer)], 1) == 0) open.push_back(peer);
    }
  }
  return count;
}

}  // namespace

void Graph::add(int from, int to) {
  auto& out = out_.at(static_cast<std::size_t>(from));
  if (from == to || std::ranges::find(out, to) != out.end()) return;
  out.push_back(to);
  in_.at(static_cast<std::size_t>(to)).push_back(from);
}

void Graph::add(int from, int to, double share) {
  const std::size_t before = out(from).size();
  add(from, to);
  if (out(from).size() == before) return;
  shares_.resize(out_.size());
  shares_[static_cast<std::size_t>(from)].push_back(share);
}

const std::vector<double>& Graph::shares(int rank) const {
  static const std::vector<double> none;
  return shares_.empty() ? none : shares_.at(static_cast<std::size_t>(rank));
}

void Graph::add(const Graph& other) {
  for (int rank = 0; rank < other.ranks(); ++rank) {
    for (const int peer : other.out(rank)) add(rank, peer);
  }
}

bool Graph::has_shares() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (shares(rank).size() != out(rank).size()) return false;
  }
  return true;
}

bool Graph::symmetric() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    for (const int peer : out(rank)) {
      if (std::ranges::find(out(peer), rank) == out(peer).end()) return false;
    }
  }
  return true;
}

bool Graph::regular() const {
  return std::ranges::all_of(out_, [&](const auto& peers) { return peers.size() == out_.front().size(); }) &&
         std::ranges::all_of(in_, [&](const auto& peers) { return peers.size() == out_.front().size(); });
}

bool Graph::connected() const {
  return reached(ranks(), [&](int rank) { return out(rank); }) == out_.size() &&
         reached(ranks(), [&](int rank) { return in(rank); }) == in_.size();
}

}  // namespace sotto
