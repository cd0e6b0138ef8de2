#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/train/folder/run_folder.h"
#include "app/train/options/choices.h"
#include "app/train/plan.h"
#include "app/train/replica.h"
#include "app/train/stop_signal.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"
#include "sotto/optim/schedule.h"

namespace sotto {

class Rollback;

// Who this rank trains with, where, and what. A session lasts from the start of the rank, or of a generation of its
// group, to its end.
class Session {
 public:
  // Makes all checks that a rank can make alone. REQUIRES a StopSignal that lives longer. `rollback`: null if the group
  // of ranks stays as it is.
  Session(Choices choices, const World& world, const Rollback* rollback);
  // Meets the other ranks, and opens the run folder with them. It makes communicator(), algorithm() and folder().
  void meet();

  // Who:
  const World& world() const { return world_; }
  Communicator& communicator() { return *communicator_; }
  int rank() const { return world_.rank; }
  int ranks() const { return world_.size; }
  template <class Value>
  std::vector<Value> gather(Value own) {  // of all ranks
    std::vector<Value> all(static_cast<std::size_t>(ranks()));
    communicator_->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    return all;
  }
  int idle() const { return idle_; }  // the first `idle` ranks do not train
  // Newcomers that take part in the exchanges of this generation, but do not train yet.
  const std::vector<int>& followers() const { return followers_; }
  void set_followers(std::vector<int> ranks);
  bool follows() const;  // whether this rank does
  int trainers() const { return ranks() - idle_ - static_cast<int>(followers_.size()); }
  int first_trainer() const;
  Interruption& interruption() { return interruption_; }

  // Where:
  RunFolder& folder() { return *folder_; }
  double seconds() const { return total_.seconds(); }  // of this start

  // With what:
  const Choices& choices() const { return choices_; }
  const TrainOptions& options() const { return choices_.options; }
  Task& task() { return *task_; }
  Replica& replica() { return replica_; }
  Algorithm& algorithm() { return *algorithm_; }
  Schedule& schedule() { return schedule_; }
  const Course& course() const { return course_; }
  const RunPlan& plan() const { return plan_; }
  const Calendar& calendar() const { return calendar_; }
  const std::string& method() const { return method_; }  // the codec of each phase, as text
  double lr_at(std::uint64_t step) const { return choices_.optimiser.lr * schedule_(course_.scheduled_step(step)); }
  bool replicated() const { return choices_.algorithm.entry->traits.replicated; }
  bool together() const { return algorithm_->traits().counts_together; }
  // Whether ranks go at their own speed: the bytes that they send belong to no step.
  bool own_speed() const { return has_own_speed(choices_.algorithm, world_.size); }
  bool averages_batch_norm() const { return averages_batch_norm_; }
  std::vector<std::string> doubts();  // about the choices; some may be empty

  // Takes up the course of a checkpoint, or of a state `in_memory`, that belongs to `manifest`. ConfigError if it is of
  // another model, other data, and so on.
  void take_up(const Manifest& manifest, bool in_memory);
  // Prepares the algorithm for this step of the course.
  void enter(std::uint64_t step);
  // Resumes from the newest intact checkpoint, if there is one.
  void resume(RunTotals& totals, const std::function<void(const std::string&)>& say);
  // The manifest of this session's states; and of a state at `step` in which followers count as trainers.
  Manifest manifest() const;
  Manifest manifest_of_all(std::uint64_t step) const;

 private:
  StepSize step_size() const;
  std::unique_ptr<Algorithm> make_planned_algorithm();
  std::string planned_method() const;
  void take_course(Course course);

  Timer total_;
  World world_;
  Choices choices_;
  bool may_change_;  // the group of ranks
  int idle_;
  std::vector<int> followers_;
  std::unique_ptr<Task> task_;
  std::string weights_doubt_;  // of start_from_weights(); this member precedes all that use the parameters
  Replica replica_;
  Course course_;
  RunPlan plan_;
  Calendar calendar_;
  Schedule schedule_;
  std::string method_, made_method_;  // the method of the plan, and of the algorithm that was made
  bool averages_batch_norm_;
  Interruption interruption_;
  std::string former_run_;  // the run of the state in memory; empty: there is none
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Algorithm> algorithm_;
  checkpoint::Metadata identity_;
  std::optional<RunFolder> folder_;
};

}  // namespace sotto
