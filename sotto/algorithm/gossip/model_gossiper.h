#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/step_thread.h"

namespace sotto {

// Averages whole models with those of neighbours, in one message per bucket. A round is on its way while the rank
// computes. There is a Gossiper for each bucket, and all of them change the note alike.
class ModelGossiper {
 public:
  // ConfigError as make_gossipers().
  ModelGossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets, Communicator& communicator);

  // Begins a round with Gossiper::begin(), and lets it leave. REQUIRES that the last round has been finished.
  void leave(std::span<float> x, GossipNote& note, Step& now);
  bool has_come() const { return has_come_; }
  void compute(Worker& worker, Step& now) { thread_.compute(worker, now); }  // while a round is on its way
  void wait(Step& now) { thread_.wait(now); }                                // until it has come
  void finish(std::span<float> x, GossipNote& note, Timings& timings);       // REQUIRES wait()
  void follow(const std::shared_ptr<const Topology>& topology);

  std::size_t size() const { return buckets_.front().range.end; }  // of the model
  const Topology& topology() const { return gossipers_.front().topology(); }
  void visit_state(StateVisitor& visitor);

 private:
  template <typename F>
  void each(std::span<float> x, GossipNote& note, F f) {
    const GossipNote before = note;
    for (std::size_t b = 0; b < gossipers_.size(); ++b) {
      note = before;
      f(gossipers_[b], x.subspan(buckets_[b].range.begin, buckets_[b].range.size()));
    }
  }

  Communicator& communicator_;
  std::vector<BucketPlan> buckets_;
  std::vector<Gossiper> gossipers_;
  Timings exchanged_;                   // belongs to the communication thread until wait()
  std::atomic<bool> has_come_ = false;  // the communication thread is done with the round
  StepThread thread_;                   // last: it is destroyed before what its work uses
};

}  // namespace sotto
