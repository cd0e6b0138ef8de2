#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/local/local_group.h"
#include "sotto/algorithm/step_thread.h"

namespace sotto {

// What happens to the optimiser's own vectors after an exchange.
enum class Buffers : std::uint8_t { keep, reset, average };

struct LocalPlan {
  std::string_view name;
  std::uint64_t h = 8;        // steps from one exchange of a bucket to the next
  std::uint64_t after = 0;    // steps at the beginning with an exchange after each
  std::size_t shards = 1;     // groups of buckets that are exchanged in turn
  std::uint64_t overlap = 0;  // steps from an exchange to its application
  double alpha = 0;           // with overlap: share of a rank's own parameters that stays
  OuterOptions outer;
  Buffers buffers = Buffers::keep;
  std::string remark{};  // says what was chosen for the user
};

// Ranks take steps of their own, and exchange from time to time how far they went, delta = start - x, through the
// aggregator. REQUIRES the same parameters on all ranks before the first step.
class LocalSteps final : public Algorithm {
 public:
  // ConfigError for a codec or memory that suits gradients alone, and for more shards than buckets.
  LocalSteps(const LocalPlan& plan, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
             Communicator& communicator);

  AlgorithmStatus status() const override;
  void enter(std::uint64_t step) override;
  StepCost drain() override;
  void go_on() override;
  void average_models(Worker& worker) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  // Buckets that are exchanged together. Belongs to the communication thread until wait().
  struct Shard {
    Key key;
    float stop = 0;         // above 0: some rank was asked to stop
    std::uint64_t due = 0;  // with overlap: the step after which what arrives is applied; 0: nothing is on its way
    bool arrives = false;   // what is on its way is applied in this step
  };
  Shard& shard_of(std::size_t bucket) { return shards_[schedule_.shard_of(bucket)]; }
  bool leaves(std::size_t bucket, std::uint64_t step) const { return schedule_.due(step, schedule_.shard_of(bucket)); }

  void run_step(Worker& worker, Step& now) override;
  void visit_own(StateVisitor& visitor);
  void prepare(Worker& worker, const Step& now);
  void collect(Step& now);
  void open(Shard& shard, const Step& now);
  void advance(Worker& worker, std::size_t bucket, double lr);
  void offer(Worker& worker, std::size_t bucket);
  void post(std::size_t bucket);
  void settle(Worker& worker, std::size_t bucket, double lr);
  void finish(Worker& worker, Step& now);
  void wait(Step& now);

  LocalPlan plan_;
  ExchangeSchedule schedule_;
  std::vector<Shard> shards_;
  std::vector<float> on_its_way_;  // with overlap: deltas, then their means
  std::span<float> deltas_;        // on_its_way_, or the worker's gradient
  std::vector<float> scratch_;
  bool asked_ = false;  // this rank was asked to stop, and the ranks have not stopped
  Timings timings_;     // belongs to the communication thread until wait(), which adds it to done_
  Timings done_;
  LocalGroup group_;
  StepThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace sotto
