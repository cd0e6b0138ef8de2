#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Averages whole models with those of neighbours, in one message per bucket. There is a Gossiper for each bucket, and
// all of them change the note alike. begin(), exchange() and finish() are those of Gossiper.
class ModelGossiper {
 public:
  // ConfigError as make_gossipers().
  ModelGossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, const Communicator& communicator);

  void begin(std::span<float> x, GossipNote& note, const Key& key, Timings& timings);
  void exchange(Communicator& communicator, Timings& timings);
  void finish(std::span<float> x, GossipNote& note, Timings& timings);
  void follow(const std::shared_ptr<const Topology>& topology);

  std::size_t size() const { return size_; }  // of the model
  const Topology& topology() const { return gossipers_.front().topology(); }
  void visit_state(StateVisitor& visitor);

 private:
  template <typename F>
  void each(std::span<float> x, GossipNote& note, F f) {
    const GossipNote before = note;
    for (std::size_t b = 0; b < gossipers_.size(); ++b) {
      note = before;
      f(gossipers_[b], x.subspan(ranges_[b].begin, ranges_[b].size()));
    }
  }

  std::vector<Range> ranges_;
  std::vector<Gossiper> gossipers_;
  std::size_t size_;
};

}  // namespace sotto
