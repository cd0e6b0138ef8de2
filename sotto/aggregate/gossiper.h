#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/round.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/topology.h"

namespace sotto {

// What travels with a rank's vector.
struct GossipNote {
  double weight = 1;  // of push-sum: vector / weight is the average
  std::uint64_t stop_step =
      std::numeric_limits<std::uint64_t>::max();  // the earliest step at which some rank wants all to stop
};

// Makes the codec of a recipe without memory. `input` says whether it encodes models of this layout or differences of
// models. ConfigError if the recipe may not be used on such an input.
std::unique_ptr<Codec> make_gossip_codec(const Recipe& recipe, const Layout& layout,
                                         std::shared_ptr<ThreadPool> pool = nullptr,
                                         Contract::Input input = Contract::Input::model);

// Averages each rank's vector with its neighbours' vectors, round by round: push-sum (Kempe, Dobra, Gehrke, FOCS 2003)
// as in Stochastic Gradient Push (Assran et al., ICML 2019). A rank waits only for its neighbours. The sum of all
// vectors and the sum of all weights stay the same, if messages on their way are counted. If the mixing is doubly
// stochastic, all weights stay 1.
//
// What a codec rounds off stays with the sender, so that the sum loses nothing. If models are exchanged, only codecs
// that may be used on models are accepted. If only differences from what receivers know are exchanged, more codecs may
// be used.
class Gossiper {
 public:
  // `codec` as for make_gossip_codec(). If a vector is mixed bucket by bucket, each bucket has its own gossiper, and
  // `bucket` is its index. These gossipers may share topology and mixing.
  Gossiper(const Recipe& codec, std::shared_ptr<const Topology> topology, std::shared_ptr<const Mixing> mixing,
           Layout layout, int rank, std::shared_ptr<ThreadPool> pool = nullptr,
           Contract::Input input = Contract::Input::model, std::uint16_t bucket = 0);

  // Runs round number key.step: begin(), exchange() and finish(). If the exchange fails, values and note are as before,
  // up to rounding.
  void mix(std::span<float> values, GossipNote& note, const Key& key, Communicator& communicator, Timings& timings);

  // Subtracts what will be sent.
  void begin(std::span<float> values, GossipNote& note, const Key& key, Timings& timings);
  // Replaces begin() for differences. Adds the coded difference to `known`, which is what receivers know of this rank.
  // Adds this rank's share of the coded difference to `sum`; finish() adds the neighbours' shares.
  void begin_difference(std::span<float> difference, std::span<float> known, std::span<float> sum, GossipNote& note,
                        const Key& key, Timings& timings);
  // Called between begin() and finish(). May run on another thread, which then has the communicator to itself.
  // WireError names the sender.
  void exchange(Communicator& communicator, Timings& timings);
  // Adds what arrived.
  void finish(std::span<float> values, GossipNote& note, Timings& timings);
  // Replaces finish() if the exchange failed: adds back what begin() subtracted.
  void take_back(std::span<float> values, GossipNote& note);

  // Uses this topology from the next round on, with the same mixing. REQUIRES that the mixing suits it.
  void follow(std::shared_ptr<const Topology> topology) { topology_ = std::move(topology); }

  std::size_t size() const { return layout_.size(); }  // of the vector
  const Topology& topology() const { return *topology_; }
  // The sum of the shares that reach this rank, its own included: 1 if the mixing is doubly stochastic. REQUIRES a
  // static topology.
  double received_share() const;
  Contract contract() const { return codec_->contract(layout_); }
  void visit_state(StateVisitor& visitor) { codec_->visit_state(visitor); }

 private:
  struct Neighbour {
    int rank;
    double share;  // share of its vector that it sends here
    GossipNote note;
  };
  const Graph& graph() const { return topology_->round(key_.step); }
  double share_of(const Graph& graph, int peer) const;  // share that `peer` sends to this rank
  // Sets up the neighbours and shares of this round. Returns the share that this rank keeps.
  double prepare(const GossipNote& note, const Key& key);
  Bucket bucket(std::span<float> values) const { return {values, &layout_, index_}; }

  std::shared_ptr<Codec> codec_;
  Encoder encoder_;
  std::shared_ptr<const Topology> topology_;
  std::shared_ptr<const Mixing> mixing_;
  Layout layout_;
  int rank_;
  std::uint16_t index_;  // of the bucket
  std::size_t room_;     // bytes of the largest message
  Key key_;              // of the round under way
  Message own_;
  OpenedMessages opened_;  // 0: this rank's own; then the neighbours', in the order of in_
  double sent_ = 0;        // sum of the shares that go to peers
  GossipNote said_;        // this rank's note before the round, which is sent along
  std::vector<Neighbour> in_;
  Round round_;
};

}  // namespace sotto
