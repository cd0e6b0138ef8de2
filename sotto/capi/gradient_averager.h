#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/capi/state_values.h"
#include "sotto/capi/terms.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/dtype.h"
#include "sotto/core/layout.h"

namespace sotto {

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  // in the order of its memory
  DType type = DType::f32;          // f32, f16 or bf16
};

// The parameters of one rule, and their schedule: phases in the order of their first steps, the first at step 0.
// `name` is the argument that gave the rule.
struct Lane {
  std::string name = "codec";
  std::vector<std::size_t> parameters;  // ascending
  std::vector<Phase> phases;
};

struct AveragerOptions {
  std::vector<Lane> lanes;  // each parameter is in exactly one
  std::uint64_t seed = 1;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  // If a value is not finite on any rank, or a mean does not fit the type of its gradient, all means of the step are
  // NaN on every rank and no memory changes; without `propagate` that is a NumericError. With it, means are available
  // only at the end of the step. It costs one round of 4 bytes a bucket, and a copy of the memories a step.
  bool propagate = false;
  int codec_threads = 1;  // that encode and decode; the result is the same with any number
  Terms required_same{};  // further values that must be the same on all ranks, but do not belong to the state
};

// What a rank held back in its former group.
struct FormerState {
  int rank = 0, ranks = 1;  // its number then, and how many ranks there were; rank < 0: it has only shared() values
  StateValues values;
};

struct AveragerStats {
  std::uint64_t steps = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t dense_bytes = 0;  // what a ring all-reduce of the gradients in their own type would have sent
  Timings timings;
};

// Averages the gradients of a user's model, parameter by parameter as they arrive. It exchanges its own buckets over
// its own vectors, made once, whatever buckets the gradients arrive in. Memories and codec state never have to move,
// and a step's result does not depend on how a framework cuts or orders its buckets.
//
// Buckets are exchanged strictly in the order in which backward should complete them: by descending index of their
// first parameter. Serves one thread.
class GradientAverager {
 public:
  // Collective. ConfigError for an impossible method, for a phase that drops the memory of the phase before (its
  // content would be lost), and for ranks that differ in anything.
  GradientAverager(std::vector<Parameter> parameters, AveragerOptions options,
                   std::shared_ptr<Communicator> communicator);

  std::size_t size() const { return places_.size(); }
  const Parameter& parameter(std::size_t index) const { return parameters_[index]; }
  // The caller writes the gradient of a parameter here, and finds its mean here afterwards.
  std::span<float> values(std::size_t parameter);
  Communicator& communicator() { return *communicator_; }

  // Begins a step. A phase that starts with it takes over the memory of the phase before. Ranks that are not in the
  // same step since the same start or load(), or have another loss scale, fail in their first exchange. The caller has
  // divided the gradients by `loss_scale` and will multiply the means by it; the products must fit the gradients'
  // types.
  void start_step(double loss_scale);
  double loss_scale() const { return loss_scale_; }
  // The gradient of this parameter is complete in values().
  void arrived(std::size_t parameter);
  // Averages the next buckets in turn, as long as they are complete, and calls finished(parameter) for each parameter
  // whose mean is available. The step is over after the last.
  void run(const std::function<void(std::size_t parameter)>& finished);

  std::uint64_t step() const { return step_; }
  AveragerStats stats() const;
  // The codec and aggregator in use, one line a lane; and all that a state must match to be loaded.
  std::string methods() const;
  std::string identity() const;

  // Memories and codec state, as they are before the next step.
  StateValues state();
  // The names of those values of state() that are the same on all ranks, and must be.
  std::vector<std::string> shared();
  // Continues before this step, from a state() taken there. A FileError leaves everything as it was.
  void load(std::uint64_t step, const StateValues& values);
  // Continues before this step with another group of ranks. Each memory becomes the mean of the memories in `states`;
  // all else is reset unless it is the same on all ranks. With the states of all former ranks, the memories owe as much
  // to the mean gradient as before. A rank whose group changed passes its own state alone; a new rank passes the
  // shared() values of another rank.
  void spread(std::uint64_t step, std::span<const FormerState> states);

 private:
  struct LaneState {
    Layout layout;
    std::vector<BucketPlan> plans;
    std::vector<float> values;
    std::unique_ptr<ScheduledAggregator> aggregator;
  };
  struct Place {  // of a parameter
    std::size_t lane = 0;
    Range range;  // of the lane's vector
    Range turns;  // consecutive; several if the parameter is too long for one bucket
  };
  struct Turn {  // a bucket, in the order of exchange
    std::size_t lane = 0;
    std::size_t plan = 0;
    std::size_t missing = 0;
    std::span<const std::size_t> parameters;
  };

  void plan_lane(std::size_t lane);
  void order_buckets();
  void check_memories(std::size_t lane) const;
  void enter_phases();
  std::unique_ptr<ScheduledAggregator> make(std::size_t lane, std::uint64_t step) const;
  using MakeLane = std::function<std::unique_ptr<ScheduledAggregator>(std::size_t lane)>;
  void begin_at(std::uint64_t step, const MakeLane& make_lane);
  void replace_all(const MakeLane& make_lane);
  void collect(StateCollector& into);
  void average(const Turn& turn);
  bool is_finite_everywhere(const Bucket& bucket);
  bool fits(const Turn& turn) const;
  void end_step();
  Terms terms() const;

  std::vector<Parameter> parameters_;
  AveragerOptions options_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<ThreadPool> pool_;  // of all codecs
  std::vector<LaneState> lanes_;
  std::vector<Place> places_;  // by parameter
  std::vector<Turn> turns_;
  std::size_t next_ = 0;     // turn
  std::uint64_t begun_ = 0;  // step of the start or of the last load()
  std::uint64_t step_ = 0;
  double loss_scale_ = 1;          // of this step
  bool overflowed_ = false;        // in this step, which must then leave no trace
  StateCollector before_step_;     // with `propagate`, to be restored after an overflow
  std::uint64_t dense_bytes_ = 0;  // a step
  std::uint64_t steps_ = 0;
  Traffic before_;  // of setting up
  Timings timings_;
};

}  // namespace sotto
