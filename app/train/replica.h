#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "app/task/task.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"
#include "sotto/optim/clip.h"
#include "sotto/optim/loss_scale.h"
#include "sotto/optim/plateau.h"

namespace sotto {

// What a run has used for training so far, over all its starts: on this rank, without evaluations.
struct RunTotals {
  double seconds = 0;
  std::uint64_t bytes_sent = 0;  // by steps

  void visit_state(StateVisitor& visitor) {
    auto bits = std::bit_cast<std::uint64_t>(seconds);
    visitor.visit("run/seconds", bits);
    seconds = std::bit_cast<double>(bits);
    visitor.visit("run/bytes-sent", bytes_sent);
  }
};

// Makes a rank's computing take `factor` times as long, plus `delay` seconds per step, by sleeping. This emulates a
// slow machine, to study how an algorithm copes.
class Slowdown {
 public:
  Slowdown() = default;
  Slowdown(double factor, double delay) : factor_(factor), delay_(delay) {}

  // Starts a step's computing.
  void begin(Clock::time_point now = Clock::now());
  // `duration` was spent waiting, not computing.
  void waited(Clock::duration duration) { waited_ += duration; }
  // When the slow machine would have computed what has been computed until `now`.
  Clock::time_point until(Clock::time_point now) const;
  // Sleeps until that time.
  void hold();

 private:
  double factor_ = 1;
  double delay_ = 0;
  Clock::time_point begin_{};
  Clock::duration slept_{}, waited_{};  // since `begin_`
};

// One rank's task and optimiser.
class Replica final : public Worker {
 public:
  Replica(Task& task, std::unique_ptr<Optimiser> optimiser, std::vector<BucketPlan> buckets, std::uint64_t accumulate,
          std::uint64_t seed, int rank);

  std::span<float> parameters() override { return task_.parameters(); }
  std::span<float> gradient() override { return task_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  // NumericError if the loss is not finite. If losses are scaled, such a loss counts as an overflow; NumericError then
  // means that the gradient would overflow without a scale, too.
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override;
  // Also copies the next gradient to `copy`: each bucket before an exchange or optimiser may change it. REQUIRES room
  // for all parameters.
  void copy_next_gradient(std::span<float> copy) { copy_ = copy; }

  // From now on this rank's gradient is clipped before anything uses it. If that needs the whole gradient, no bucket is
  // ready before backward is done.
  void clip_gradients(ClipSpec clip) { clip_ = std::move(clip); }

  // From now on losses are scaled, and steps whose gradient overflows are void. Any element may overflow, so no bucket
  // is ready before backward is done. A void step leaves batch-norm statistics and the tally as they were.
  void scale_loss(const LossScaleOptions& options);
  const LossScale* loss_scale() const { return scale_.get(); }  // null: none
  // Optimiser::to_evaluate(); but if that is a mean of iterates, and every step so far was void: the parameters.
  std::span<const float> to_evaluate();

  // From now on computing is slowed down; gradients become ready later, too.
  void slow_down(const Slowdown& slowdown) { slowdown_ = slowdown; }

  // From now on visit_state() also visits the state of `plateau`, which must outlive this.
  void keep(Plateau& plateau) { plateau_ = &plateau; }

  // Visits what a resumed run needs besides parameters and buffers: what the optimiser and the schedule remember.
  void visit_state(StateVisitor& visitor);
  // Visits the tally of Task::trained().
  void visit_trained(StateVisitor& visitor);

  Task& task() { return task_; }
  double data_seconds() const { return data_seconds_; }  // time that the last step waited for its batches

 private:
  void bucket_needed(std::size_t bucket);
  void segment_needed(std::size_t segment);
  void segment_ready(std::size_t segment);
  bool clips_at_once() const { return clip_ && clip_.entry->whole; }
  bool holds_buckets() const { return scale_ || clips_at_once(); }
  void unscale(std::uint64_t step, double loss);
  void need_all();
  void report_next();

  Task& task_;
  std::unique_ptr<LossScale> scale_;  // null: losses are not scaled
  std::unique_ptr<Optimiser> optimiser_;
  std::vector<BucketPlan> buckets_;
  std::vector<Range> buckets_of_;  // of each segment; several buckets if it is too long for one
  std::uint64_t accumulate_;
  std::uint64_t seed_;
  int rank_;
  double data_seconds_ = 0;
  Slowdown slowdown_;
  ClipSpec clip_;
  Plateau* plateau_ = nullptr;  // of the schedule of learning rates; null: it has no state

  // While computing:
  const BucketCalls* calls_ = nullptr;
  std::vector<char> needed_;          // for each bucket: whether it was needed
  std::vector<std::size_t> missing_;  // unfinished segments of each bucket
  std::size_t next_ = 0;              // the first bucket not yet reported
  std::span<float> copy_;
  std::vector<float> old_buffers_;  // with a scale, from before the step
  Tally old_trained_;
  SegmentCalls first_passes_, last_pass_;
};

}  // namespace sotto
