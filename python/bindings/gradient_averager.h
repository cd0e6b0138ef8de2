#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "python/bindings/state_values.h"
#include "python/bindings/terms.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/phased.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/dtype.h"
#include "sotto/core/layout.h"

namespace sotto::python {

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  // in the order of its memory
  DType type = DType::f32;          // f32, f16 or bf16
};

// The parameters under one rule, and their schedule: phases by ascending first step, the first of them at 0. `name` is
// that of the argument that says so.
struct Lane {
  std::string name = "codec";
  std::vector<std::size_t> parameters;  // ascending
  std::vector<Phase> phases;
};

struct AveragerOptions {
  std::vector<Lane> lanes;  // each parameter stands in one
  std::uint64_t seed = 1;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  // A step in which a value is not finite on any rank, or a mean does not fit the type of its gradient, is NaN as a
  // whole on every rank, in place of a NumericError; it changes no memory. So means are there only when the step is
  // over. Costs one round of 4 bytes a bucket, and a copy of the memories a step.
  bool propagate = false;
  int codec_threads = 1;  // that encode and decode; the result is the same with any number
  Terms required_same;    // whatever else must be the same on all ranks, but does not belong to the state
};

struct AveragerStats {
  std::uint64_t steps = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t dense_bytes = 0;  // that a ring all-reduce of the gradients in their own type would have sent
  Timings timings;
};

// Averages the gradients of somebody else's model, parameter by parameter as they come. What is exchanged are buckets
// of our own over vectors of our own, made once, whatever buckets the gradients come and go in: so memories and codec
// state never have to move, and a step's result does not depend on how others cut or order their buckets.
//
// Buckets are exchanged strictly in the order in which backward should complete them: by descending index of their
// first parameter. Serves one thread.
class GradientAverager {
 public:
  // Collective. ConfigError when a method is none, when a later phase of a lane drops the memory of an earlier one
  // (what it holds would be lost), and when the ranks differ in anything.
  GradientAverager(std::vector<Parameter> parameters, AveragerOptions options,
                   std::shared_ptr<Communicator> communicator);

  std::size_t size() const { return places_.size(); }
  const Parameter& parameter(std::size_t index) const { return parameters_[index]; }
  // Where the gradient of a parameter goes, and where its mean is afterwards.
  std::span<float> values(std::size_t parameter);
  Communicator& communicator() { return *communicator_; }

  // A new step begins. A phase that begins with it takes over the memory of the one before. Ranks that do not go on
  // from the same step of the same start or load(), or have another loss scale, fail in their first exchange. Means
  // must fit the types of their gradients times `loss_scale`, by which the caller divided and will multiply them.
  void start_step(double loss_scale);
  double loss_scale() const { return loss_scale_; }
  // All of the gradient of this parameter is in values().
  void arrived(std::size_t parameter);
  // Averages the buckets whose turn it is and that are complete; calls finished(parameter) for each parameter whose
  // mean is there. The step is over after the last.
  void run(const std::function<void(std::size_t parameter)>& finished);

  std::uint64_t step() const { return step_; }
  AveragerStats stats() const;
  // The sentence and aggregator in use, one line a lane; and everything that the state belongs to.
  std::string methods() const;
  std::string identity() const;

  // Memories and codec state, as they are before the next step.
  StateValues state();
  // Goes on from state() before this step. FileError leaves everything as it was.
  void load(std::uint64_t step, const StateValues& values);
  // Goes on from the states of all ranks, in order, of a job of another size: each memory becomes the mean of the old
  // ones, so that the mean gradient is owed what it was; all else begins anew.
  void spread(std::uint64_t step, std::span<const StateValues> states);

 private:
  struct LaneState {
    Layout layout;
    std::vector<BucketPlan> plans;
    std::vector<float> values;
    std::unique_ptr<Phased> aggregator;
  };
  struct Place {  // of a parameter
    std::size_t lane = 0;
    Range range;  // of the lane's vector
    Range turns;  // one after the other; several of a parameter that is too long for one bucket
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
  std::unique_ptr<Phased> make(std::size_t lane, std::uint64_t step, int rank, int ranks) const;
  std::unique_ptr<Phased> make(std::size_t lane, std::uint64_t step) const;
  using MakeLane = std::function<std::unique_ptr<Phased>(std::size_t lane)>;
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
  bool overflowed_ = false;        // this step; then nothing of it is to remain
  StateCollector before_step_;     // with `propagate`, to be put back then
  std::uint64_t dense_bytes_ = 0;  // a step
  std::uint64_t steps_ = 0;
  Traffic before_;  // what setting up took
  Timings timings_;
};

}  // namespace sotto::python
