#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"
#include "sotto/optim/schedule.h"
#include "app/train/calendar.h"
#include "app/train/choices.h"
#include "app/train/course.h"
#include "app/train/evaluations.h"
#include "app/train/gradient_study.h"
#include "app/train/interruption.h"
#include "app/train/listener.h"
#include "app/train/newcomer_state.h"
#include "app/train/plan.h"
#include "app/train/progress.h"
#include "app/train/recorder.h"
#include "app/train/replica.h"
#include "app/train/rollback.h"
#include "app/train/run_folder.h"
#include "app/train/run_totals.h"
#include "app/train/test_result.h"
#include "app/train/trainer.h"

namespace sotto {

// The group of ranks changes, as all its members have agreed: each of them has left it.
class GroupChange : public CommError {
 public:
  using CommError::CommError;
};

// The run ends because a rank was lost, and there is a checkpoint from which it can go on.
class EndedWithCheckpoint : public Error {
 public:
  using Error::Error;
};

// One rank's part of a run, from the meeting of the ranks to the summary. run() shows the order.
class Run {
 public:
  // Meets the other ranks, after all checks that a rank can make alone. REQUIRES a StopSignal that lives longer. With
  // `rollback` a CommError does not end the run: another Run with the same `rollback` goes on with another group of
  // ranks. With `heartbeat` ranks may also leave and join while none is lost.
  Run(Choices choices, const World& world, Rollback* rollback = nullptr, Heartbeat* heartbeat = nullptr);
  // Trains, once. CommError, with `rollback`: another Run is to go on. EndedWithCheckpoint if World::failure is set.
  TrainResult run();

 private:
  // In run.cc, the order of a run and of its steps:
  std::unique_ptr<Algorithm> make_same_algorithm();
  std::unique_ptr<Algorithm> make_planned_algorithm();
  std::string method() const;
  void begin(RunFolder& folder);
  void end(TrainResult& result);
  bool train_step(std::uint64_t step);
  bool goes_on();
  void save_beside();
  void average_models();
  void average_batch_norm(StepReport& report);
  void check_replicas();
  std::vector<std::uint64_t> rank_steps() const;
  std::uint64_t step_of_meeting() const;

  // In run_rejoin.cc, for groups that change:
  bool rejoin(RunFolder& folder);
  void count_lost_bytes(const RunFolder& folder);
  void begin_generation();
  bool keeps(std::uint64_t step);
  void keep(std::uint64_t step);
  void keep_together();
  void keep_what_is_left();
  bool agreed_change();
  [[noreturn]] void end_with_checkpoint();
  [[noreturn]] void end_in_failure(const std::string& checkpoint) const;
  [[noreturn]] void leave_as_planned(std::uint64_t step);
  void require_group();
  void note_lap();
  [[noreturn]] void leave_group();
  template <class Value>
  std::vector<Value> gather(Value own) {  // of all ranks
    std::vector<Value> all(static_cast<std::size_t>(communicator_->size()));
    communicator_->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    return all;
  }

  // In run_newcomers.cc:
  std::vector<int> newcomers();
  bool may_follow(std::uint64_t step);
  void give_state(int donor, const std::vector<int>& newcomers);
  void visit_shared(StateCopy& state);
  void bring_up_to_date();
  bool is_up_to_date(std::chrono::milliseconds time);
  bool wishes_to_join();
  int first_trainer() const;
  Share share() const;

  // In run_records.cc, what a run writes to its folder and prints:
  void resume(RunFolder& folder);
  void take_up(const Manifest& manifest);
  void take_course(Course course);
  void save(Kept kept);
  std::optional<std::uint64_t> best_step() const;  // nothing unless the best is kept
  void evaluate();
  bool evaluate_due();
  void follow_evaluation();
  void record(const RunTotals& spent);
  void tell(TrainedStep& row, const Tally& before);
  void summarise(const TrainResult& result, std::uint64_t first_step);
  RunTotals totals() const;
  Traffic traffic() const;
  std::string reached_text() const;
  void note_untrained();
  void announce_phase(std::uint64_t step);
  void show(const StepRow& row, std::uint64_t done);
  void say_of_rows();
  void say_of_study();
  void say(const std::string& line);

  double lr_at(std::uint64_t step) const { return choices_.optimiser.lr * schedule_(course_.scheduled_step(step)); }
  // How many of so many ranks compute gradients.
  int trainers(int ranks) const { return ranks - idle_ - static_cast<int>(followers_.size()); }
  std::size_t own_rank() const { return static_cast<std::size_t>(communicator_->rank()); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(options_.seed); }
  std::uint64_t accumulate() const { return static_cast<std::uint64_t>(options_.accumulate); }
  StepSize step_size(int ranks) const {
    return {static_cast<std::uint64_t>(trainers(ranks)), static_cast<std::uint64_t>(options_.batch_size), accumulate()};
  }

  Timer total_;
  Rollback* rollback_;    // null: the group stays as it is
  Heartbeat* heartbeat_;  // null: no rank can join
  World world_;
  Choices choices_;
  const TrainOptions& options_ = choices_.options;
  int idle_;                    // the first `idle_` ranks do not train
  std::vector<int> followers_;  // newcomers that take part in exchanges, and do not train yet, in this generation
  std::unique_ptr<Task> task_;
  std::string weights_doubt_;  // of start_from_weights(); this member precedes all that use the parameters
  Replica replica_;
  Course course_;
  RunPlan plan_;
  Calendar calendar_;
  Schedule schedule_;
  std::string method_;
  bool replicated_;
  bool own_speed_;  // ranks go at their own speed: what they send belongs to no step
  bool averages_batch_norm_;
  GradientStudy study_;
  Progress progress_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Algorithm> algorithm_;
  bool together_;                                  // AlgorithmTraits::counts_together
  bool follows_ = false;                           // this rank is one of followers_
  bool has_state_ = false;                         // of a newcomer: it has got the others'
  std::unique_ptr<NewcomerState> newcomer_state_;  // on its way, or arrived in this generation; null: of no newcomer
  checkpoint::Metadata identity_;
  Interruption interruption_;
  Evaluations evaluations_;

  std::uint64_t done_ = 0, meeting_ = 0;    // steps of the run so far, and the step at which the ranks meet next
  std::uint64_t finished_ = 0;              // up to this step, all that was due is done
  std::vector<std::uint64_t> first_steps_;  // of each rank, since the last start
  std::optional<std::uint64_t> continues_;  // the generation whose state in memory this one went on from
  bool newcomer_ = true;                    // this rank brought no state of its own
  RunFolder* folder_ = nullptr;
  Recorder* recorder_ = nullptr;
  RunTotals before_;    // what earlier starts used
  RunTotals steps_;     // what the steps of this start have used
  Traffic counted_;     // already in rows, or excluded from them
  std::string remark_;  // what was chosen, after it was printed
  TestResult tested_;
  bool is_saved_ = false, is_tested_ = false;  // whether the current model has a checkpoint, and an evaluation
  std::optional<std::uint64_t> kept_;          // the step of the last checkpoint that is kept forever
};

}  // namespace sotto
