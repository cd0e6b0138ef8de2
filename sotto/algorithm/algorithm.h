#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/algorithm/elastic.h"
#include "sotto/algorithm/worker.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/optim/optimiser.h"
#include "sotto/topology/mixing.h"
#include "sotto/topology/table.h"

namespace sotto {

// Which buckets ranks exchange after which of their own steps. Buckets are dealt to shards in turn (the strided pattern
// of Streaming DiLoCo). Each shard is exchanged once in h steps, and shards are spread evenly over these steps. In the
// first `after` steps every shard is exchanged after each step.
class ExchangeSchedule {
 public:
  // REQUIRES h >= 1 and 1 <= shards <= buckets.
  ExchangeSchedule(std::uint64_t h, std::uint64_t after, std::size_t shards, std::size_t buckets)
      : h_(h), after_(after), shards_(shards), buckets_(buckets) {}

  // The last bucket is in the last shard. So when that shard was exchanged, all buckets were.
  std::size_t shard_of(std::size_t bucket) const { return shards_ - 1 - (buckets_ - 1 - bucket) % shards_; }
  bool due(std::uint64_t step, std::size_t shard) const {
    if (step < after_) return true;
    const std::uint64_t turn = (shard + 1) * h_ / shards_;  // h for the last shard
    return (step - after_ + 1) % h_ == turn % h_;
  }
  bool any_due(std::uint64_t step) const {
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      if (due(step, shard)) return true;
    }
    return false;
  }

 private:
  std::uint64_t h_, after_;
  std::size_t shards_, buckets_;
};

struct StepInput {
  std::uint64_t step = 0;
  double lr = 0;
  bool stop = false;  // this rank was asked to stop
  // For ranks that count together (AlgorithmTraits): they meet after this many steps per rank, on average; 0: no
  // meeting is set.
  std::uint64_t meeting = 0;
};

// Times are in seconds. With overlap the `timings` pass while the rank computes; `wait` is the part that computing does
// not hide. `queue` is how long, on average, a finished bucket waited for the exchanges of the buckets before it.
struct StepCost {
  double seconds = 0, compute = 0, wait = 0, queue = 0;
  Timings timings{};

  StepCost& operator+=(const StepCost& other) {
    seconds += other.seconds;
    compute += other.compute;
    wait += other.wait;
    queue += other.queue;
    timings += other.timings;
    return *this;
  }
};

struct StepReport : StepCost {
  double loss = 0;
  bool stop = false;  // some rank was asked to stop: all stop after this step
  // For ranks that count together (AlgorithmTraits): all ranks must call drain() after this step, because enough steps
  // were made, or some rank was asked to stop.
  bool meets = false;
};

// A step while an algorithm makes it. StepInput is given; the algorithm fills in the rest.
struct Step : StepInput {
  Key key{};  // of this rank's messages
  double loss = 0;
  bool stops = false, meets = false;  // as `stop` and `meets` of the report
  double wait = 0, queue = 0;
  Timings timings{};
  StepReport report(double seconds) const;  // of a step that took `seconds`
};

// From step `first` on, the pattern of what an algorithm sends repeats every `period` steps. If `period` is 0, it never
// repeats, because it depends on how fast ranks are.
struct Rhythm {
  std::uint64_t first = 0, period = 1;
};

// Properties that do not change while an algorithm runs.
struct AlgorithmTraits {
  Rhythm rhythm{};                        // for the topology that it begins with
  ExchangeSchedule schedule{1, 0, 1, 1};  // the steps in which it sends something
  // step() does something before it computes the gradient. It sends, and the sooner it is called, the more of the
  // exchange is hidden; or it brings the model up to date.
  bool starts_early = false;
  // Ranks make as many steps as they can, and the sum over all ranks counts.
  bool counts_together = false;
  bool can_go_on = true;  // go_on() may be called after a step that stopped
};

// The interface of algorithms whose ranks go at their own speed: ad_psgd, and parameter_server if workers do not wait
// for each other's gradients.
class OwnSpeed {
 public:
  virtual ~OwnSpeed() = default;
  virtual std::uint64_t rate_step() const = 0;  // the step that the schedule of learning rates has reached
  // The steps of each rank, as far as this one knows; exact after drain().
  virtual std::vector<std::uint64_t> rank_steps() const = 0;
  virtual std::uint64_t exchange_count() const = 0;  // exchanges with other ranks, or with servers
  virtual std::uint64_t exchange_bytes() const = 0;  // in exchanges; the rest of AlgorithmStatus::traffic are notes
  // Called after an error, in place of drain(): ranks that wait for this one learn that it is lost. The worker has the
  // model as it is. Only visit_state() and the destructor may follow.
  virtual void abandon() = 0;
  // Called before the first step of a group that continues from steps of other ranks: each rank has made `steps` steps.
  virtual void begin_at(std::uint64_t steps) = 0;
};

struct AlgorithmOptions {
  std::vector<Phase> phases{Phase{}};  // how vectors are averaged, or coded, and from which step on
  TopologySpec topology = topology_table().choose("exponential");  // of gossip: who exchanges with whom
  MixingSpec mixing{};           // of gossip: with what shares; none: the topology's own, or uniform
  int node_size = 1;             // of gossip: ranks that share a model, which nodes exchange (make_nodes)
  bool averages_in_node = true;  // false: the gradients of a node are the same already
  bool overlap = true;           // messages travel while this rank computes
  std::uint64_t seed = 1;
  std::uint16_t generation = 0;
  int codec_threads = 1;                    // threads that encode and decode; any number gives the same result
  std::vector<TopologyPhase> topologies{};  // in place of `topology`, if peers change during the run

  const Recipe& recipe() const { return phases.front().recipe; }  // of an algorithm that has a single phase
};

// What may change while an algorithm runs.
struct AlgorithmStatus {
  std::string aggregator;  // name of the one in use
  std::string remark{};    // what was chosen, and why; empty: nothing yet
  Traffic traffic{};       // of mailboxes, which the communicator does not count
};

// Owns the order of one training step, and reads like the paper that it comes from.
class Algorithm {
 public:
  // `elastic` and `own_speed` are parts of the algorithm, or null.
  Algorithm(const AlgorithmOptions& options, Communicator& communicator, const AlgorithmTraits& traits,
            Elastic* elastic, OwnSpeed* own_speed = nullptr)
      : options_(options), communicator_(communicator), traits_(traits), elastic_(elastic), own_speed_(own_speed) {}
  virtual ~Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  const AlgorithmTraits& traits() const { return traits_; }
  Elastic* elastic() const { return elastic_; }       // null: its group cannot change
  OwnSpeed* own_speed() const { return own_speed_; }  // null: ranks go step by step together
  bool exchanges(std::uint64_t step) const {
    return traits_.schedule.any_due(step);
  }  // whether this step sends anything
  virtual AlgorithmStatus status() const = 0;
  // Prepares the state for this step, so that visit_state() visits the state with which this step begins.
  virtual void enter(std::uint64_t /*step*/) {}
  // When it returns, parameters may still be on their way, until the next step calls needed(), or until drain().
  StepReport step(Worker& worker, const StepInput& input);
  // Called between two steps: waits for what is on its way. From then until the next step, others may use the
  // communicator. All ranks call it after the same step or, if they count together, at the same meeting. Returns the
  // cost that the report of the last step lacks: with sync(priority=need), the cost of exchanges that were still on
  // their way.
  virtual StepCost drain() { return {}; }
  // Called after a step that stopped, and after drain(), if all ranks continue after all: forgets who wished to stop.
  // REQUIRES traits().can_go_on.
  virtual void go_on() {}
  // Gives all ranks the same parameters: the exact mean of the ranks' models, including what is on its way. Collective.
  virtual void average_models(Worker& /*worker*/) {}
  // What a resumed run needs besides the worker's parameters. REQUIRES drain().
  virtual void visit_state(StateVisitor& visitor) = 0;

 protected:
  // step(), as the paper has it. While this rank follows (Following), the worker is a stand-in.
  virtual void run_step(Worker& worker, Step& now) = 0;

  AlgorithmOptions options_;
  Communicator& communicator_;

 private:
  AlgorithmTraits traits_;
  Elastic* elastic_;
  OwnSpeed* own_speed_;
};

// What follows from the options of an algorithm.
struct OptionTraits {
  // Ranks may be lost and replaced during a run. The others go back to a step that all have made, so the algorithm must
  // be able to drain() after each step, and each exchange must need all ranks unless Elastic::lead() says otherwise.
  // Ranks that count together do not go back: each continues from where it was.
  bool elastic = false;
  bool varies = false;  // no two runs are the same even if ranks wait for each other
  // The optimiser gets the mean gradient of all ranks as a whole, not in parts. Only for replicated algorithms; with
  // others it gets a rank's own gradient.
  bool whole_mean = false;
};

// What follows from the options of an algorithm and the number of ranks.
struct Roles {
  int idle = 0;         // how many ranks, the first ones, compute no gradients
  bool in_step = true;  // all ranks that train wait for each other in every step; only for replicated algorithms
};

// A line of the table of algorithms.
struct AlgorithmEntry {
  struct Traits {
    bool replicated = false;       // all ranks have the same parameters after each step and drain()
    bool uses_aggregator = false;  // uses the aggregator of recipes, and several `phases`
    bool other_ranks = false;      // a run may continue with another number of ranks: Elastic::take_over()
    bool own_speed = false;        // ranks wait for nobody, and a model changes while its gradient is computed
    bool steps_elsewhere = false;  // the optimiser of a rank that computes takes no steps: servers take them
  };
  struct Graph {
    bool used = false;                          // whether it uses `topology` and `mixing` of the options
    bool changes = false;                       // accepts `topologies`
    std::string_view topology = "exponential";  // used if the user names none
    // Why this topology with this mixing cannot be used, in words; empty if it can. make_topology() makes connected
    // ones only.
    std::string (*problem)(const Topology& topology, const Mixing& mixing) = [](const Topology&, const Mixing&) {
      return std::string();
    };
  };

  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  Traits traits{};
  Graph graph{};
  std::string_view optimiser = "auto";  // the one that it is published with; "auto": any
  AnyOptions (*options)();
  // Reads the options that are codecs; null: none is.
  AnyOptions (*read)(const AnyOptions& own) = nullptr;
  OptionTraits (*with)(const AnyOptions& own) = [](const AnyOptions&) { return OptionTraits(); };
  // ConfigError if there are too few ranks.
  Roles (*roles)(const AnyOptions& own, int ranks) = [](const AnyOptions&, int) { return Roles(); };
  std::unique_ptr<Algorithm> (*make)(const AnyOptions& own, const AlgorithmOptions& options,
                                     std::span<const BucketPlan> buckets, Communicator& communicator);
};
const Table<AlgorithmEntry>& algorithm_table();

using AlgorithmSpec = Spec<AlgorithmEntry>;

// ConfigError, with a caret, for an unknown name or wrong arguments.
AlgorithmSpec read_algorithm(std::string_view option, std::string_view text);

// How many ranks, the first ones, compute no gradients; the others share the data. ConfigError if ranks are too few.
int idle_ranks(const AlgorithmSpec& algorithm, int ranks);

// Whether all ranks train the same model in each step, and wait for each other.
bool all_in_step(const AlgorithmSpec& algorithm, int ranks);

// ConfigError, about `node_size`, if the algorithm cannot run on `ranks` ranks in nodes of `node_size` ranks.
void check_nodes(const AlgorithmSpec& algorithm, std::int64_t node_size, int ranks);

// ConfigError if an algorithm on graphs cannot run on this topology with this mixing.
void check_graph(const AlgorithmSpec& algorithm, const TopologySpec& topology, const MixingSpec& mixing, int ranks);

// The communicator must outlive the algorithm, which uses it on its communication thread from the beginning of a step
// until drain().
std::unique_ptr<Algorithm> make_algorithm(const AlgorithmSpec& algorithm, const AlgorithmOptions& options,
                                          std::span<const BucketPlan> buckets, Communicator& communicator);

}  // namespace sotto
