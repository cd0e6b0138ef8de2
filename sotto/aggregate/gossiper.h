#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/aggregate/encoder.h"
#include "sotto/aggregate/opened_messages.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/round.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/topology.h"

namespace sotto {

// What goes with a rank's vector.
struct GossipNote {
  double weight = 1;                                                // of push-sum: the vector over it is the average
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();  // the smallest that anybody said
};

// The codec of a recipe without memory, for models of this layout, or for differences of
// models. ConfigError when it may not be used on such an input.
std::unique_ptr<Codec> make_gossip_codec(const Recipe& recipe, const Layout& layout,
                                         std::shared_ptr<ThreadPool> pool = nullptr,
                                         Contract::Input input = Contract::Input::model);

// Averages a vector of each rank with those of its neighbours, round by round, without any rank waiting for one that is
// not its neighbour: push-sum (Kempe, Dobra, Gehrke, FOCS 2003) as in Stochastic Gradient Push (Assran et al., ICML
// 2019). The sum over ranks of vectors and of weights stays the same, with what is on its way; where the mixing is
// doubly stochastic all weights stay 1.
//
// What a codec rounds off stays with the sender, so that nothing is lost of the sum either. Models are not gradients:
// only codecs that may be used on a model are taken, unless only differences to what receivers know are exchanged.
class Gossiper {
 public:
  // `codec` as of make_gossip_codec(). Of a vector that is mixed bucket by bucket, each by a gossiper of its own (all
  // may share topology and mixing), `bucket` is the index.
  Gossiper(const Recipe& codec, std::shared_ptr<const Topology> topology, std::shared_ptr<const Mixing> mixing,
           Layout layout, int rank, std::shared_ptr<ThreadPool> pool = nullptr,
           Contract::Input input = Contract::Input::model, std::uint16_t bucket = 0);

  // One round, of number key.step: mix() is the three below it in turn. When the exchange fails, values and note are
  // what they were, up to rounding.
  void mix(std::span<float> values, GossipNote& note, const Key& key, Communicator& communicator, Timings& timings);

  // Takes off what is going to be sent.
  void begin(std::span<float> values, GossipNote& note, const Key& key, Timings& timings);
  // In place of begin(), for differences: adds what is going to be decoded to what receivers know of this rank, and its
  // own share of that to the sum that finish() goes on with.
  void begin_difference(std::span<float> difference, std::span<float> known, std::span<float> sum, GossipNote& note,
                        const Key& key, Timings& timings);
  // Between the other two; for another thread, which has the communicator for its own meanwhile.
  void exchange(Communicator& communicator, Timings& timings);
  // Adds what arrived. WireError names the sender.
  void finish(std::span<float> values, GossipNote& note, Timings& timings);
  // In place of finish(), when the exchange failed: adds what was taken off.
  void take_back(std::span<float> values, GossipNote& note);

  // From the next round on, with the same mixing. REQUIRES that this suits.
  void follow(std::shared_ptr<const Topology> topology) { topology_ = std::move(topology); }

  std::size_t size() const { return layout_.size(); }  // of the vector
  const Topology& topology() const { return *topology_; }
  const Mixing& mixing() const { return *mixing_; }
  // The shares that add up at this rank, its own and those of its neighbours: 1 where the mixing is doubly stochastic.
  // REQUIRES a static topology.
  double received_share() const;
  Contract contract() const { return codec_->contract(layout_); }
  void visit_state(StateVisitor& visitor) { codec_->visit_state(visitor); }

 private:
  struct Neighbour {
    int rank;
    double share;  // of what it has, that it sends here
    GossipNote note;
  };
  const Graph& graph() const { return topology_->round(key_.step); }
  double share_of(const Graph& graph, int peer) const;  // that it sends to this rank
  // Who sends what in this round; the share that this rank keeps.
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
  Key key_;              // of the round that is on its way
  Message own_;
  OpenedMessages opened_;  // 0: the own one; then those of neighbours, in the order of in_
  double sent_ = 0;        // the share that all peers together get
  GossipNote said_;        // what goes along: the weight before it was shared out
  std::vector<Neighbour> in_;
  Round round_;
};

}  // namespace sotto
