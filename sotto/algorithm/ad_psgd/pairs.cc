#include "sotto/algorithm/ad_psgd/pairs.h"

#include <fmt/format.h>

#include "sotto/aggregate/gossiper.h"

namespace sotto {
namespace {

// Calls `f` with each peer that `rank` asks, in turn, if it is on the side of those that ask.
template <class F>
void for_peers(const Topology& topology, const std::vector<bool>& sides, int rank, F f) {
  if (!sides[static_cast<std::size_t>(rank)]) return;
  for (std::size_t round = 0; round < topology.period(); ++round) {
    for (const int peer : topology.round(round).out(rank)) f(peer);
  }
}

}  // namespace

PairPlan pair_plan(const Topology& topology, int rank, std::uint64_t every, bool each) {
  PairPlan plan{{}, every, each};
  for_peers(topology, topology.sides().value(), rank, [&](int peer) { plan.peers.push_back(peer); });
  return plan;
}

std::string no_pairs(const Topology& topology) {
  const std::string name = fmt::format("`{}` of {} ranks", topology.text(), topology.ranks());
  const auto sides = topology.sides();
  if (!sides) {
    return fmt::format(
        "one of two ranks asks and the other answers, and {} has not two such sides; take "
        "bipartite_exponential, bipartite_linear, ring (an even number of ranks), or star (any number)",
        name);
  }
  Graph asked(topology.ranks());
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for_peers(topology, *sides, rank, [&](int peer) {
      asked.add(rank, peer);
      asked.add(peer, rank);
    });
  }
  if (asked.connected()) return "";
  return fmt::format(
      "ranks of one side ask those that they send to, and in {} these pairs do not join all ranks; take "
      "a symmetric topology, as bipartite_exponential",
      name);
}

PairedModel::PairedModel(const Recipe& codec, std::span<const BucketPlan> buckets,
                         const std::shared_ptr<ThreadPool>& pool) {
  for (const BucketPlan& bucket : buckets) {
    const std::shared_ptr<Codec> own = make_gossip_codec(codec, bucket.layout, pool);
    parts_.push_back({bucket, own, Encoder(own), {}, own->make_opened(), own->make_opened()});
  }
}

std::size_t PairedModel::max_bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.codec->max_bytes(part.plan.layout, part.whole());
  return bytes;
}

Bucket PairedModel::bucket(std::span<float> x, std::size_t index) const {
  const BucketPlan& plan = parts_[index].plan;
  return {x.subspan(plan.range.begin, plan.range.size()), &plan.layout, static_cast<std::uint16_t>(index)};
}

void PairedModel::offer(std::span<float> x, const Key& key, std::vector<std::byte>& letter) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const Range whole = parts_[b].whole();
    parts_[b].encoder.encode_alone(bucket(x, b), key, {&whole, 1}, {&parts_[b].message, 1});
    const auto bytes = parts_[b].message.bytes();
    letter.insert(letter.end(), bytes.begin(), bytes.end());
  }
}

void PairedModel::open(std::span<const std::byte> offer, const Expected& expected) {
  Expected next = expected;
  for (Part& part : parts_) {
    const MessageView message = MessageView::parse(offer);
    message.expect(next);
    part.theirs->open(message, part.plan.layout, part.whole());
    offer = offer.subspan(message.size());
    ++next.bucket;
  }
  if (!offer.empty()) throw WireError(fmt::format("{} bytes after the model", offer.size()));
}

void PairedModel::move(std::span<float> x, std::span<const std::byte> own) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const Part& part = parts_[b];
    Bucket to = bucket(x, b);
    part.theirs->add_to(to, 0.5F);
    const MessageView message = MessageView::parse(own);
    part.own->open(message, part.plan.layout, part.whole());
    part.own->add_to(to, -0.5F);
    own = own.subspan(message.size());
  }
}

void PairedModel::visit_state(StateVisitor& visitor) {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    ScopedState scoped(visitor, fmt::format("bucket {}", b));
    parts_[b].codec->visit_state(scoped);
  }
}

}  // namespace sotto
