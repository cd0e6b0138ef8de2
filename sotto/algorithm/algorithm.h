#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/phased.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"
#include "sotto/optim/optimiser.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/peer_schedule.h"
#include "sotto/topology/table.h"

namespace sotto {

// Callbacks that a worker makes while it computes, on its own thread.
struct BucketCalls {
  // Call it before the parameters of this bucket are read, or its gradient written, in this step: it returns when they
  // may be. Call it for every bucket before the first one is ready.
  std::function<void(std::size_t bucket)> needed = [](std::size_t) {};
  // Call it when the gradient of this bucket is finished, in order of bucket indices, which is about the order in which
  // backward comes to them. Buckets that nothing finished come at the end.
  std::function<void(std::size_t bucket)> ready = [](std::size_t) {};
  // A worker whose gradient can overflow calls this once, after backward and before the first bucket is ready. It says
  // whether the gradient overflowed, and learns whether the step is void. By default each rank decides for itself;
  // ranks that take one step together agree. The gradient of a void step is zero, and the worker's optimiser leaves the
  // step out.
  std::function<bool(bool overflows)> is_void = [](bool overflows) { return overflows; };
};

// What an algorithm drives: one rank's model, data and optimiser as flat vectors.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<const BucketPlan> buckets() const = 0;
  virtual Optimiser& optimiser() = 0;
  // gradient() = gradient of this rank's mean loss over its batch of this step; returns the loss.
  virtual double compute_gradient(std::uint64_t step, const BucketCalls& calls) = 0;
};

struct StepInput {
  std::uint64_t step = 0;
  double lr = 0;
  bool stop = false;  // this rank was asked to stop
  // For ranks that count together (AlgorithmTraits): they meet after this many steps per rank, on average; 0: no
  // meeting is set.
  std::uint64_t meeting = 0;
};

// Times are in seconds. Timings run beside compute when overlapped; `wait` is the part of them that was not hidden.
// `queue` is how long a finished bucket waited for the exchanges of those before it, on average.
struct StepReport {
  double loss = 0;
  bool stop = false;  // some rank was asked to stop: all stop after this step
  // For ranks that count together (AlgorithmTraits): all rest() after this step, because enough steps were made, or
  // some rank was asked to stop.
  bool meets = false;
  double seconds = 0, compute = 0, wait = 0, queue = 0;
  Timings timings;
};

// From step `first` on, what an algorithm sends repeats itself every `period` steps. A period of 0 means never, because
// it depends on how fast ranks are.
struct Rhythm {
  std::uint64_t first = 0, period = 1;
};

// Properties that do not change while an algorithm runs.
struct AlgorithmTraits {
  Rhythm rhythm{};  // for the topology that it begins with
  // step() does something before the gradient is computed: it sends, and the sooner it begins, the more of that is
  // hidden; or it first brings the model up to date.
  bool starts_early = false;
  // Ranks make as many steps as they can, and the sum over all ranks counts.
  bool counts_together = false;
  bool can_go_on = true;       // go_on() may be called after a step that stopped
  bool has_followers = false;  // weigh() and catch_up() may be called
  // A newcomer needs no parameters of others before meet_others(), which gives it the model. With local steps it needs
  // their common start, which visit_shared() has; before they have one, all have the parameters with which they began.
  bool meets_models = false;
};

// The interface of algorithms whose ranks go at their own speed: ad_psgd, and parameter_server if workers do not wait
// for each other's gradients.
class OwnSpeed {
 public:
  virtual ~OwnSpeed() = default;
  virtual std::uint64_t rate_step() const = 0;  // the step that the schedule of learning rates has reached
  // The steps of each rank, as far as this one knows; exact after rest().
  virtual std::vector<std::uint64_t> rank_steps() const = 0;
  virtual std::uint64_t exchange_count() const = 0;  // exchanges with other ranks, or with servers
  virtual std::uint64_t exchange_bytes() const = 0;  // sent in exchanges; the rest of traffic() are notes
  // Called after an error, in place of rest(): ranks that wait for this one learn that it is lost. The worker has the
  // model as it is. Only visit_state() and the destructor may follow.
  virtual void abandon() = 0;
  // Called before the first step of a group that goes on from others' steps: each rank has made so many.
  virtual void begin_at(std::uint64_t steps) = 0;
};

// Owns the order of one training step, and reads like the paper that it comes from.
class Algorithm {
 public:
  explicit Algorithm(const AlgorithmTraits& traits = {}, OwnSpeed* own_speed = nullptr)
      : traits_(traits), own_speed_(own_speed) {}
  virtual ~Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  const AlgorithmTraits& traits() const { return traits_; }
  OwnSpeed* own_speed() const { return own_speed_; }  // null: ranks go step by step together
  virtual std::string_view aggregator() const = 0;    // name of the one in use
  virtual std::string remark() const { return ""; }   // what was chosen while it ran, and why; empty: nothing yet
  virtual bool exchanges(std::uint64_t /*step*/) const { return true; }  // whether this step sends anything
  // Prepares the state for this step, so that visit_state() walks over what this step begins with.
  virtual void enter(std::uint64_t /*step*/) {}
  // When it returns, parameters may still be on their way, until the next step calls needed(), or until rest().
  virtual StepReport step(Worker& worker, const StepInput& input) = 0;
  // Called between two steps: waits for exchanges of the earlier step that are still on their way, and adds their
  // seconds to its report. Only sync(priority=need) has such exchanges; the trainer need not know that.
  virtual void complete(StepReport& /*report*/) {}
  // Waits for what is on its way. From then until the next step, others may use the communicator. All ranks call it
  // after the same step or, if they count together, at the same meeting.
  virtual void rest() {}
  // Called after a step that stopped, and after rest(), if all ranks go on after all: forgets who wished to stop.
  // REQUIRES traits().can_go_on.
  virtual void go_on() {}
  // Gives all ranks the same parameters: the exact mean of the ranks' models, including what is on its way. Collective.
  virtual void average_models(Worker& /*worker*/) {}
  // How many steps a rank may have finished that another has not begun yet, at most.
  virtual std::uint64_t lead() { return 0; }
  // What a resumed run needs besides the worker's parameters. REQUIRES rest().
  virtual void visit_state(StateVisitor& visitor) = 0;
  // What is the same on all ranks, or is to be their mean if they become another group.
  virtual void visit_shared(StateVisitor& /*visitor*/) {}
  // Replaces a reading visit_state() if the group of ranks is another one now, after a reading visit_shared(). Takes
  // over what the ranks `each` held back: all ranks of the group that wrote a checkpoint, or this rank's own former
  // self. It becomes their mean. So the ranks together owe as much to the mean gradient as before, if each takes over
  // the mean of all; and if each keeps its own, nothing is lost but what lost ranks held back. Choices begin anew, and
  // warm starts may. REQUIRES enter(), rest(), and AlgorithmEntry::other_ranks; for this rank's own
  // former self, AlgorithmEntry::elastic is enough.
  virtual void take_over(std::span<const FormerRank> /*each*/) {
    throw std::logic_error("an algorithm cannot go on with other ranks");
  }
  // Called after take_over() if the group changed while it trained, on ranks that are new in it, too: these have taken
  // over nothing. Where each rank has a model of its own, all go on from the exact mean of the models of those that are
  // not new; in all other cases the parameters are the same already. Collective.
  virtual void meet_others(Worker& /*worker*/, bool /*is_new*/) {}
  // What this rank contributes to means is multiplied by `weight` from now on. With 0 it follows the others before it
  // has their model: it takes part in their exchanges with zeros, computes nothing, leaves its parameters as they are,
  // and keeps the steps that all ranks take alike. The others' weights make up for the zeros, which count in the mean.
  // If a follower comes to an exchange long before the others, it asks `stops` there, on the thread that communicates,
  // whether it wishes to stop by now (StepInput::stop). Called before the first step. REQUIRES traits().has_followers,
  // and recipes for which a rank that sends zeros does not change the sum (ignores_zeros()).
  virtual void weigh(float /*weight*/, const std::function<bool()>& /*stops*/) {
    throw std::logic_error("an algorithm has no followers");
  }
  virtual std::size_t kept_bytes() const { return 0; }  // for the steps of a follower
  // Takes the steps that it keeps, but begins none after `until`. Returns whether none is left. Then the model is that
  // of the others; with local steps, the one with which they began their round. REQUIRES rest(), and the worker and
  // visit_shared() as they were before the first of these steps.
  virtual bool catch_up(Worker& /*worker*/, Clock::time_point /*until*/) { return true; }
  // The traffic of mailboxes, which the communicator does not count.
  virtual Traffic traffic() const { return {}; }

 private:
  AlgorithmTraits traits_;
  OwnSpeed* own_speed_;
};

struct AlgorithmOptions {
  std::vector<Phase> phases{Phase{}};  // how vectors are averaged, or coded, and from which step on
  TopologySpec topology = topology_table().choose("exponential");  // of gossip: who exchanges with whom
  MixingSpec mixing{};           // of gossip: with what shares; none: the topology's own, or uniform
  int node_size = 1;             // of gossip: ranks that share a model, which nodes exchange (nodes.h)
  bool averages_in_node = true;  // false: the gradients of a node are the same already
  bool overlap = true;           // messages travel while this rank computes
  std::uint64_t seed = 1;
  std::uint16_t generation = 0;
  int codec_threads = 1;                    // threads that encode and decode; any number gives the same result
  std::vector<TopologyPhase> topologies{};  // in place of `topology`, if peers change during the run

  const Recipe& recipe() const { return phases.front().recipe; }  // of an algorithm that has a single phase
};

// A line of the table of algorithms.
struct AlgorithmEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  bool replicated = false;       // all ranks have the same parameters after each step and rest()
  bool uses_aggregator = false;  // uses the aggregator of recipes, and several `phases`
  bool other_ranks = false;      // a run may go on with another number of ranks: take_over()
  // Whether ranks may be lost and replaced during a run; null: they may not. The others go back to a step that all have
  // made, so the algorithm must be able to rest() after each step, and each exchange must need all ranks unless lead()
  // says otherwise. Ranks that count together do not go back: each goes on from where it was.
  bool (*elastic)(const AnyOptions& own) = nullptr;
  bool uses_topology = false;  // uses `topology` and `mixing`
  AnyOptions (*options)();
  // Reads the options that are sentences themselves; null: none is.
  AnyOptions (*read)(const AnyOptions& own) = nullptr;
  std::unique_ptr<Algorithm> (*make)(const AnyOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);
  std::string_view optimiser = "auto";  // the one that it is published with; "auto": any
  // How many of `ranks`, the first ones, compute no gradients; null: none. ConfigError if there are too few ranks.
  int (*idle)(const AnyOptions& own, int ranks) = nullptr;
  std::string_view topology = "exponential";  // used if the user names none
  // Why this topology with this mixing cannot be used, in words; empty if it can. Null: any can. Only for algorithms
  // that use a topology. make_topology() makes connected ones only.
  std::string (*problem)(const Topology& topology, const Mixing& mixing) = nullptr;
  bool changes_peers = false;  // accepts `topologies`
  // Whether no two runs are the same even if ranks wait for each other; null: they are.
  bool (*varies)(const AnyOptions& own) = nullptr;
  bool own_speed = false;  // ranks wait for nobody, and a model changes while its gradient is computed
  // Whether all ranks that train wait for each other in every step; null: they do. Only for replicated algorithms.
  bool (*in_step)(const AnyOptions& own, int ranks) = nullptr;
  bool steps_elsewhere = false;  // the optimiser of a rank that computes takes no steps: servers take them
  // Whether the optimiser gets the mean gradient of all ranks as a whole; null: in parts. Only for replicated
  // algorithms; with others it gets a rank's own gradient.
  bool (*whole_mean)(const AnyOptions& own) = nullptr;
};
const Table<AlgorithmEntry>& algorithm_table();

using AlgorithmSpec = Spec<AlgorithmEntry>;

// ConfigError, with a caret, for an unknown name or wrong arguments.
AlgorithmSpec read_algorithm(std::string_view option, std::string_view text);

// How many ranks, the first ones, compute no gradients; the others share the data. ConfigError if ranks are too few.
int idle_ranks(const AlgorithmSpec& algorithm, int ranks);

// Whether all ranks train the same model in each step, and wait for each other.
bool all_in_step(const AlgorithmSpec& algorithm, int ranks);

// ConfigError, about `node_size`, if the algorithm cannot run between nodes of that many of the ranks.
void check_nodes(const AlgorithmSpec& algorithm, std::int64_t node_size, int ranks);

// ConfigError if an algorithm on graphs cannot run on this topology with this mixing.
void check_graph(const AlgorithmSpec& algorithm, const TopologySpec& topology, const MixingSpec& mixing, int ranks);

// The communicator must outlive the algorithm, which uses it on its communication thread from the beginning of a step
// until rest().
std::unique_ptr<Algorithm> make_algorithm(const AlgorithmSpec& algorithm, const AlgorithmOptions& options,
                                          std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
