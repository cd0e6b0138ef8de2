#include "app/train/training_loop.h"

#include <fmt/format.h>

#include <numeric>

#include "app/train/identity.h"

namespace sotto {

TrainingLoop::TrainingLoop(Session& session, RunLog& log, GroupMembership& group)
    : session_(session),
      log_(log),
      group_(group),
      model_(session, log, group, done_),
      study_(session.choices(), session.world().rank, session.world().size, session.idle()) {}

TrainResult TrainingLoop::run() {
  begin();
  log_.open();
  if (!session_.world().failure.empty()) end_with_checkpoint();

  TrainResult result;
  result.train_dir = session_.folder().path().string();
  const Calendar& calendar = session_.calendar();
  const Evaluations& evaluations = log_.evaluations();
  std::uint64_t step = first_;  // this rank's next step
  meeting_ = calendar.next_meeting(done_);
  finished_ = done_;
  session_.communicator().deadlines().lap();
  try {
    // A signal may have broken off the evaluation after the last step.
    const bool lacks_test = !group_.continues() && calendar.evaluates_after(done_) && !evaluations.has(done_);
    bool stop = evaluations.reached() || (lacks_test && model_.evaluate_due());
    for (log_.skip_traffic(); done_ < session_.plan().steps && !stop; ++step) {
      finished_ = done_;
      stop = train_step(step);
    }
    if (step == first_ && !session_.followers().empty()) group_.newcomers().bring_up_to_date(done_);
    end(result);
    if (step > first_) {
      const bool diverged = model_.is_tested() && !makes_sense(model_.tested(), session_.task().loss_of_guessing());
      log_.summarise(result, rank_steps(), first_, model_.tested(), diverged);
    }
  } catch (const Stopped&) {
    throw;
  } catch (const CommError&) {
    group_.keep_what_is_left(finished_);
    throw;
  }
  if (result.signal != 0) return result;
  if (step == first_) log_.note_untrained(done_, model_.tested());
  require_sense(model_.tested(), session_.task().loss_of_guessing(), done_);
  return result;
}

// Prepares the folder, or takes up the newest checkpoint, or a state in memory.
void TrainingLoop::begin() {
  const Choices& choices = session_.choices();
  RunFolder& folder = session_.folder();
  log_.warn(folder.lock_doubt());
  if (group_.rejoin()) {
    done_ = folder.start_step();
    // A checkpoint first, because the newest one, of a later step, needs rows that are cut below. Not while newcomers
    // follow: they have no state.
    if (folder.newest_checkpoint() > done_ && session_.followers().empty()) model_.save(Kept::by_clock);
    const int ranks = session_.trainers() + session_.idle();
    log_.say(fmt::format("step {}  continues with {} rank{}{}", done_, ranks, ranks == 1 ? "" : "s",
                         session_.followers().empty() ? "" : "; newcomers get their model meanwhile"));
  } else if (choices.options.resume) {
    RunTotals before;
    session_.resume(before, [this](const std::string& line) { log_.say(line); });
    log_.take_up(before);
    done_ = folder.start_step();
    model_.resumed();
  }
  for (const std::string& remark : session_.task().remarks()) log_.warn(spelled(remark, choices.spelling));
  const std::vector<std::uint64_t> first_steps = rank_steps();
  first_ = first_steps[static_cast<std::size_t>(session_.rank())];
  log_.begin(first_steps, group_.continues());
  const bool trains =
      done_ < session_.plan().steps && !log_.evaluations().reached() && session_.world().failure.empty();
  folder.write_options(trains);
  if (trains) group_.begin_generation(done_);
  session_.interruption().attempt([&] {
    study_.begin(folder.path(), first_, session_.rank() == session_.first_trainer());
    log_.begin_listeners(first_);
  });
  log_.say_of_start();
}

// Runs after the last step of this start, which is the same for all ranks.
void TrainingLoop::end(TrainResult& result) {
  Interruption& interruption = session_.interruption();
  session_.algorithm().drain();
  log_.take_choice();
  interruption.attempt([this] { study_.finish(); });
  log_.warn(study_.take_remark(), session_.idle());
  const int urgency = interruption.agreed_urgency(session_.communicator());
  model_.save(Kept::always);
  const auto end_if_failed = [&](int agreed) {
    if (agreed < StopSignal::failed_rank) return;
    const int rank = agreed - StopSignal::failed_rank;
    log_.say(fmt::format("step {}  stopped because of an error of rank {}, with a checkpoint", done_, rank));
    interruption.end_in_error(rank, done_);
  };
  end_if_failed(urgency);
  const auto end_by_signal = [&](int agreed) { result.signal = std::max(1, StopSignal::of_urgency(agreed)); };
  const bool leaves_out_test = urgency > 0 && !model_.is_tested() && !session_.world().coordinated;
  const bool ends_early = done_ < session_.plan().steps && (urgency > 0 || !log_.evaluations().reached());
  if (leaves_out_test || ends_early) end_by_signal(urgency);
  if (!model_.is_tested() && result.signal == 0) {
    model_.evaluate_last();
    const int urgency_of_test = interruption.agreed_urgency(session_.communicator());
    end_if_failed(urgency_of_test);
    if (!model_.is_tested()) end_by_signal(urgency_of_test);
  }
  result.steps = done_;
  result.tested = model_.tested().metrics;
}

// Runs in place of the steps of a generation after a failure, if failures end the job (OnFailure::checkpoint).
void TrainingLoop::end_with_checkpoint() {
  if (!group_.continues() && !session_.options().resume) {
    throw Error(session_.world().failure + "; no rank had begun a step, so there is no checkpoint");
  }
  model_.save(Kept::always);
  session_.communicator().barrier();
  group_.end_in_failure(fmt::format("a checkpoint was written after step {}", done_));
}

// The number of steps that each rank has made. REQUIRES drain().
std::vector<std::uint64_t> TrainingLoop::rank_steps() {
  if (session_.together()) return session_.algorithm().own_speed()->rank_steps();
  return std::vector<std::uint64_t>(static_cast<std::size_t>(session_.ranks()), done_);
}

// The step of the run that the ranks have reached. It is one step of each rank or, if ranks count together, as many
// steps as there are ranks, whichever ranks made them.
std::uint64_t TrainingLoop::step_of_meeting() {
  const std::vector<std::uint64_t> steps = rank_steps();
  return session_.calendar().step_of_meeting(
      meeting_, std::reduce(steps.begin(), steps.end()) / static_cast<std::uint64_t>(session_.ranks()));
}

// Makes this rank's step number `step`. Returns whether training ends here.
bool TrainingLoop::train_step(std::uint64_t step) {
  Algorithm& algorithm = session_.algorithm();
  Replica& replica = session_.replica();
  Interruption& interruption = session_.interruption();
  const Course& course = session_.course();
  const bool together = session_.together();
  const OwnSpeed* own_speed = algorithm.own_speed();
  const std::uint64_t before = done_, rate_step = own_speed ? own_speed->rate_step() : step;
  group_.begin_step(step, first_, done_);
  TrainedStep row;
  row.step = step;
  row.rank = static_cast<std::uint64_t>(session_.rank());
  const std::uint64_t counted = together ? rate_step : step;
  row.epoch = course.epochs_at(counted);
  row.epoch_number = course.epoch_of(counted);
  row.iteration = counted - course.first_step_in(row.epoch_number);
  row.lr = session_.lr_at(rate_step);
  const bool studied = study_.due(step) && !interruption.failed() && !session_.follows();
  if (studied) {
    interruption.attempt([&] { replica.copy_next_gradient(study_.room(session_.task().gradient().size())); });
    log_.warn(study_.take_remark(), session_.idle());
  }
  const Tally trained_before = log_.tally();
  const bool wish = interruption.wished(algorithm.traits().can_go_on) || group_.wishes_change();
  StepReport report = algorithm.step(replica, {step, row.lr, wish, meeting_});
  model_.changed();
  if (!together) done_ = step + 1;
  const bool completes = report.stop || report.meets || is_over() || session_.averages_batch_norm() ||
                         session_.calendar().due(before, done_).any() || study_.needs_rest(step);
  if (completes) {  // other code will use the communicator, and rows must have the step's cost before that
    report += algorithm.drain();
  }
  if (report.meets) {
    done_ = step_of_meeting();
    meeting_ = session_.calendar().next_meeting(done_);
  }
  if (session_.averages_batch_norm()) average_batch_norm(session_.task(), session_.communicator(), report);
  log_.add_step(row, report);
  const bool is_void = replica.loss_scale() != nullptr && replica.loss_scale()->is_void();
  if (studied && !is_void && !interruption.failed()) {
    interruption.attempt([&] { study_.start(step, session_.task().layout(), algorithm, replica.buckets()); });
  }
  if (algorithm.exchanges(step)) group_.note_lap();
  log_.tell(row, trained_before);

  bool ends = is_over();
  const Calendar::Due due = session_.calendar().due(before, done_);
  const bool all_needed = !session_.followers().empty() && (report.stop || ends || due.any());
  if (all_needed) group_.newcomers().bring_up_to_date(done_);
  if (ends && session_.options().final_average) model_.average();
  if (due.comparison) {
    algorithm.drain();
    require_same_parameters(session_.task().parameters(), done_, session_.communicator());
  }
  log_.show(row, std::max(done_, together ? rate_step : 0));
  if (due.evaluation) ends = model_.evaluate_due() || ends;
  if (due.checkpoint) model_.save(Kept::always);
  if (due.evaluation && !ends) model_.save_if_best_or_late();
  const bool pauses = report.stop || report.meets || (all_needed && algorithm.exchanges(step));
  if (pauses && !ends) ends = !continue_together();
  if (completes) log_.skip_traffic();  // otherwise later traffic counts in the next row
  return ends;
}

// Runs when all ranks have stopped together. If none wants to end, they continue, after a checkpoint if one is overdue.
bool TrainingLoop::continue_together() {
  Interruption& interruption = session_.interruption();
  const bool changes = group_.agreed_change(done_);
  if (!changes && interruption.agreed_urgency(session_.communicator()) != 0) return false;
  if (interruption.agreed_late(session_.communicator())) model_.save(Kept::by_clock);
  const bool joins = !session_.followers().empty() && !session_.world().planned();
  if (changes || joins) group_.leave(done_);
  session_.algorithm().go_on();
  return true;
}

}  // namespace sotto
