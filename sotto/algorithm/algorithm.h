#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/phased.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/optim/optimiser.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/peer_schedule.h"
#include "sotto/topology/table.h"

namespace sotto {

// What a worker calls as it computes, on its own thread.
struct BucketCalls {
  // The parameters of this bucket are about to be read in this step, or its gradient written; returns when they may be.
  // For each bucket before the first one is ready.
  std::function<void(std::size_t bucket)> needed = [](std::size_t) {};
  // The gradient of this bucket is finished. In the order of bucket indices, which is about that in which backward
  // comes to them; what nothing finished comes at the end.
  std::function<void(std::size_t bucket)> ready = [](std::size_t) {};
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
  // Of ranks that count together (AlgorithmTraits): they meet when they have made so many steps each, on average; 0:
  // whenever.
  std::uint64_t meeting = 0;
};

// Seconds of one step. Timings run beside compute when overlapped; `wait` is what of them was not hidden. `queue` is
// how long a bucket that was finished waited for the exchange of those before it, on average.
struct StepReport {
  double loss = 0;
  bool stop = false;  // some rank was asked to stop: all of them stop after this step
  // Of ranks that count together (AlgorithmTraits): all of them rest() after this step, as enough were made, or some
  // rank was asked to stop.
  bool meets = false;
  double seconds = 0, compute = 0, wait = 0, queue = 0;
  Timings timings;
};

// From step `first` on, what an algorithm sends repeats itself every `period` steps; 0: never, since it depends on how
// fast ranks are.
struct Rhythm {
  std::uint64_t first = 0, period = 1;
};

// What stays as it is while an algorithm runs.
struct AlgorithmTraits {
  Rhythm rhythm{};  // with the topology that it begins with
  // step() does something before it has the gradient computed: it sends, and hides the more the sooner it begins; or it
  // brings the model up to date, at which the gradient is taken.
  bool starts_early = false;
  // Ranks make as many steps as they can, and the steps of all together count.
  bool counts_together = false;
  bool can_go_on = true;  // after a step that stopped: go_on() may be called
};

// What only ranks at their own speed are asked for: AlgorithmEntry::own_speed. One class answers (ad_psgd); this stays
// an interface because those who ask know no algorithm by its class.
class OwnSpeed {
 public:
  virtual ~OwnSpeed() = default;
  virtual std::uint64_t rate_step() const = 0;  // the step that the schedule of learning rates has come to
  // The steps of each rank, as far as this one knows; after rest(): all of them.
  virtual std::vector<std::uint64_t> rank_steps() const = 0;
  virtual std::uint64_t exchange_count() const = 0;  // with other ranks
  // After an error, in place of rest(): ranks that wait for this one are to learn that it is lost.
  virtual void abandon() = 0;
};

// Owns the order of one step of training, and reads like the paper that it comes from.
class Algorithm {
 public:
  explicit Algorithm(const AlgorithmTraits& traits = {}, OwnSpeed* own_speed = nullptr)
      : traits_(traits), own_speed_(own_speed) {}
  virtual ~Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  const AlgorithmTraits& traits() const { return traits_; }
  OwnSpeed* own_speed() const { return own_speed_; }  // null: ranks go step by step together
  virtual std::string_view aggregator() const = 0;    // the one in use
  virtual std::string remark() const { return ""; }   // what was chosen while it ran, and why; empty: nothing yet
  virtual bool exchanges(std::uint64_t /*step*/) const { return true; }  // whether this step sends anything
  // step() takes up from here: what visit_state() then walks over is what this step begins with.
  virtual void enter(std::uint64_t /*step*/) {}
  // Parameters may still be on their way when it returns, until the next one's needed(), or until rest().
  virtual StepReport step(Worker& worker, const StepInput& input) = 0;
  // After a step, before the next one: waits for what is still on its way, and adds its seconds to the report of that
  // step. Only sync(priority=need) has any, which the trainer need not know.
  virtual void complete(StepReport& /*report*/) {}
  // Waits for what is on its way. Others may use the communicator from then on, until the next step. All ranks call it
  // after the same step.
  virtual void rest() {}
  // After a step that stopped, and rest(), where all ranks go on after all: whoever wished to stop, that is forgotten.
  // REQUIRES traits().can_go_on.
  virtual void go_on() {}
  // Gives all ranks the same parameters: the exact mean of the ranks' models, with what is on its way. Collective.
  virtual void agree(Worker& /*worker*/) {}
  // What a resumed run needs, beside the worker's parameters. REQUIRES rest().
  virtual void visit_state(StateVisitor& visitor) = 0;
  // Of what it opened beside the communicator: its mailboxes.
  virtual Traffic traffic() const { return {}; }

 private:
  AlgorithmTraits traits_;
  OwnSpeed* own_speed_;
};

struct AlgorithmOptions {
  std::vector<Phase> phases{Phase{}};  // how vectors are averaged, or coded, from which step on
  TopologySpec topology = topology_table().choose("exponential");  // of gossip: who exchanges with whom
  MixingSpec mixing{};           // and with what shares; none: the topology's own, or uniform
  int node_size = 1;             // and that ranks of so many share a model, which nodes exchange (nodes.h)
  bool averages_in_node = true;  // where gradients of a node are not the same already
  bool overlap = true;           // what is sent travels while this rank computes
  std::uint64_t seed = 1;
  std::uint16_t generation = 0;
  int codec_threads = 1;                    // that encode and decode; the result is the same with any number
  std::vector<TopologyPhase> topologies{};  // where peers change on the way, in place of `topology`

  const Recipe& recipe() const { return phases.front().recipe; }  // of an algorithm whose recipe does not change
};

// A line of the table of algorithms.
struct AlgorithmEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  bool replicated = false;       // all ranks have the same parameters after each step and rest()
  bool uses_aggregator = false;  // of recipes the aggregator, and several `phases`
  bool uses_topology = false;    // `topology` and `mixing`
  AnyOptions (*options)();
  std::unique_ptr<Algorithm> (*make)(const AnyOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);
  std::string_view optimiser = "auto";  // that it is published with; "auto": any
  // Of so many ranks, the first so many compute no gradients; null: none. ConfigError where there are too few.
  int (*idle)(const AnyOptions& own, int ranks) = nullptr;
  std::string_view topology = "exponential";  // where nobody says another
  // Of those that use a topology: why this one, with this mixing, will not do, in words; empty: it will. Null: any
  // will. make_topology() gives connected ones only.
  std::string (*problem)(const Topology& topology, const Mixing& mixing) = nullptr;
  bool changes_peers = false;  // takes `topologies`
  bool own_speed = false;      // ranks wait for nobody, and a model changes while its gradient is computed
  // Of replicated ones: whether all ranks that train wait for each other in every step; null: they do.
  bool (*in_step)(const AnyOptions& own, int ranks) = nullptr;
};
const Table<AlgorithmEntry>& algorithm_table();

using AlgorithmSpec = Spec<AlgorithmEntry>;

// How many ranks, the first ones, compute no gradients; the others share out the data among themselves. ConfigError
// where there are too few.
int idle_ranks(const AlgorithmSpec& algorithm, int ranks);

// Whether in each step all ranks train the same model, and wait for each other.
bool all_in_step(const AlgorithmSpec& algorithm, int ranks);

// ConfigError, about `node_size`, where the algorithm cannot be had between nodes of so many of the ranks.
void check_nodes(const AlgorithmSpec& algorithm, std::int64_t node_size, int ranks);

// ConfigError where an algorithm on graphs cannot be had on this topology, with this mixing.
void check_graph(const AlgorithmSpec& algorithm, const TopologySpec& topology, const MixingSpec& mixing, int ranks);

// The communicator must outlive the algorithm, which uses it from its communication thread from the beginning of a step
// until rest().
std::unique_ptr<Algorithm> make_algorithm(const AlgorithmSpec& algorithm, const AlgorithmOptions& options,
                                          std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
