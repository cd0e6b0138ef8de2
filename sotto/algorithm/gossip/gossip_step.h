#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/step_thread.h"
#include "sotto/topology/topology.h"

namespace sotto {

// What algorithms on graphs share. The workers' parameters are the models, a wish to stop travels from neighbour to
// neighbour, and the group may change.
class GossipStep : public Algorithm, private Elastic {
 public:
  AlgorithmStatus status() const override { return {"gossip"}; }
  void go_on() override { note_.stop_step = GossipNote{}.stop_step; }

 protected:
  // `delay` computes after how many steps all ranks have heard of a wish. It is called when that number is first
  // needed, because it takes milliseconds for a thousand ranks, and few runs ever need it.
  GossipStep(const AlgorithmOptions& options, Communicator& communicator, const AlgorithmTraits& traits,
             std::function<std::uint64_t()> delay)
      : Algorithm(options, communicator, traits, this), Elastic(true), count_delay_(std::move(delay)) {}

  // The step, as the paper has it.
  virtual void gossip(Worker& worker, Step& now) = 0;

  GossipNote note_;  // with this rank's weight, and the step after which all stop

 private:
  void run_step(Worker& worker, Step& now) final;
  // A rank that has finished a step has heard of everything that others did lead() steps before. So no rank is further
  // ahead.
  std::uint64_t lead() final;
  void take_over(std::span<const FormerRank> each) override;
  void sync_after_change(Worker& worker, bool is_new) override;

  std::function<std::uint64_t()> count_delay_;
  std::optional<std::uint64_t> delay_;
};

// A gossip step in which weights move along with models, as in push-sum. A rank has x and w, and the worker is shown
// z = x / w: gradients are taken there, and models are evaluated with it.
class PushSumStep : public GossipStep {
 public:
  void average_models(Worker& worker) override { average(worker, true); }
  // Leaves out a wish to stop, which does not hold for a run that continues. FileError if x of another size was read.
  void visit_state(StateVisitor& visitor) override;

 protected:
  // `name` is that of the method, in the state.
  PushSumStep(std::string_view name, std::size_t size, const AlgorithmOptions& options, Communicator& communicator,
              const AlgorithmTraits& traits, std::function<std::uint64_t()> delay)
      : GossipStep(options, communicator, traits, std::move(delay)), name_(name), size_(size) {}

  // Call it before a step. The first call sets x to the worker's parameters; each call gives the worker z.
  void begin(Worker& worker);
  void show(Worker& worker);  // gives the worker the z of this x

  std::vector<float> x_;  // empty before the first step

 private:
  virtual void collect_all() {}  // adds to x what is on its way
  virtual void restart() {}      // all ranks have the same x now

  void average(Worker& worker, bool counts);
  void take_over(std::span<const FormerRank> each) final;
  void sync_after_change(Worker& worker, bool is_new) final { average(worker, !is_new); }

  std::string_view name_;
  std::size_t size_;
  bool shown_ = false;
};

// One gossiper per bucket, as the options say. ConfigError.
std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input = Contract::Input::model);
void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers);

// Visits a weight as a double, bit for bit.
void visit_weight(StateVisitor& visitor, std::string_view name, double& weight);

// The topologies of a run whose peers change on the way (AlgorithmOptions::topologies).
class ChangingPeers {
 public:
  ChangingPeers(const AlgorithmOptions& options, int ranks);
  // The topology that begins with this step, or null if it is the one that the last call found.
  std::shared_ptr<const Topology> begun(std::uint64_t step);
  // The number of rounds, anywhere in the run, after which every rank has heard of every other one: the sum over the
  // first topology and all later ones.
  std::uint64_t rounds_to_reach_all() const;

 private:
  TopologySpec first_;
  std::vector<TopologyPhase> phases_;
  int ranks_;
  std::size_t phases_begun_ = 0;
};

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
