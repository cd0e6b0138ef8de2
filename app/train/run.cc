#include "app/train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "app/train/batch_norm.h"
#include "app/train/buckets.h"
#include "app/train/identity.h"
#include "app/train/stop_signal.h"
#include "app/train/weights.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/comm/shaped.h"
#include "sotto/comm/transport.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// Meets the other ranks over the chosen transport, and adds the emulated links, if any.
std::unique_ptr<Communicator> connect_ranks(const Choices& choices, const World& world) {
  const TrainOptions& options = choices.options;
  const std::chrono::seconds deadline(options.deadline);
  const Stop stop = world.generation > 1 && !world.ends_at_signal() ? Stop() : StopSignal::caught;
  auto communicator = choices.transport->connect(world, {.interface = options.interface,
                                                         .address = options.address,
                                                         .secret = options.secret,
                                                         .relay = options.relay,
                                                         .streams = static_cast<int>(options.streams),
                                                         .deadline = deadline,
                                                         .connect_deadline = deadline,
                                                         .stop = stop});
  return options.link ? make_shaped(std::move(communicator), choices.links) : std::move(communicator);
}

}  // namespace

Run::Run(Choices choices, const World& world, Rollback* rollback, Heartbeat* heartbeat)
    : rollback_(rollback),
      heartbeat_(heartbeat),
      world_(world),
      choices_(std::move(choices)),
      idle_(idle_ranks(choices_.algorithm, world.size)),
      task_(make_task(choices_, {std::max(0, world.rank - idle_), world.size - idle_})),
      weights_doubt_(start_from_weights(options_, *task_)),
      replica_(*task_, make_optimiser(choices_.optimiser, task_->layout()),
               plan_buckets(task_->layout(), choices_.buckets), accumulate(), seed(), world.rank),
      course_(task_->epochs(), step_size(world.size)),
      plan_(plan_run(choices_, course_, replica_.optimiser().dense_steps())),
      calendar_(options_, course_, plan_.steps),
      schedule_(make_schedule(choices_.schedule, plan_.horizon, plan_.epoch)),
      method_(method()),
      replicated_(choices_.algorithm.entry->traits.replicated),
      own_speed_(has_own_speed(choices_.algorithm, world.size)),
      averages_batch_norm_(averages_batch_norm(choices_, *task_, world.size)),
      study_(choices_, world.rank, world.size, idle_),
      progress_(world.starter),
      listeners_(make_listeners(choices_, world.rank, rollback != nullptr)),
      communicator_(connect_ranks(choices_, world)),
      algorithm_(make_same_algorithm()),
      together_(algorithm_->traits().counts_together),
      identity_(run_identity(choices_, method_, *task_, communicator_->size())),
      interruption_(rollback == nullptr && world.rank > 0 ? 0 : options_.checkpoint_minutes, world.rank,
                    rollback == nullptr ? Timer() : rollback->since_checkpoint),
      evaluations_(choices_.task->metrics, choices_.task->goal_metric(), choices_.until) {}

TrainResult Run::run() {
  const auto kept = rollback_ == nullptr ? std::nullopt : rollback_->last();
  RunFolder folder(choices_, *communicator_, world_.generation, kept ? rollback_->manifest(*kept).run : "");
  folder_ = &folder;
  begin(folder);
  Recorder recorder(folder.path(), communicator_->rank());
  recorder_ = &recorder;
  if (!world_.failure.empty()) end_with_checkpoint();

  TrainResult result;
  result.train_dir = folder.path().string();
  const std::uint64_t first = first_steps_[own_rank()];
  std::uint64_t step = first;  // this rank's next step
  meeting_ = calendar_.next_meeting(done_);
  finished_ = done_;
  communicator_->deadlines().lap();
  try {
    // A signal may have broken off the evaluation after the last step.
    const bool lacks_test = !continues_ && calendar_.evaluates_after(done_) && !evaluations_.has(done_);
    bool stop = evaluations_.reached() || (lacks_test && evaluate_due());
    for (counted_ = traffic(); done_ < plan_.steps && !stop; ++step) {
      finished_ = done_;
      stop = train_step(step);
    }
    if (step == first && !followers_.empty()) bring_up_to_date();
    end(result);
    if (step > first) summarise(result, folder.start_step());
  } catch (const Stopped&) {
    throw;
  } catch (const CommError&) {
    keep_what_is_left();
    throw;
  }
  if (result.signal != 0) return result;
  if (step == first) note_untrained();
  require_sense(tested_, task_->loss_of_guessing(), done_);
  return result;
}

// Prepares the folder, or resumes from its newest checkpoint.
void Run::begin(RunFolder& folder) {
  check_captured_memory(choices_, *algorithm_, replica_.buckets());
  if (!folder.lock_doubt().empty()) say("warning: " + folder.lock_doubt());
  if (Plateau* plateau = schedule_.plateau()) replica_.keep(*plateau);
  if (scales_loss(choices_.amp)) replica_.scale_loss(choices_.amp.options.as<LossScaleOptions>());
  if (!(rollback_ != nullptr && rejoin(folder)) && options_.resume) resume(folder);
  for (const std::string& remark : task_->remarks()) say("warning: " + spelled(remark, choices_.spelling));
  done_ = folder.start_step();
  first_steps_ = rank_steps();
  evaluations_.take_up(folder.begin(first_steps_, evaluations_));
  if (continues_) count_lost_bytes(folder);
  const bool trains = done_ < plan_.steps && !evaluations_.reached() && world_.failure.empty();
  folder.write_options(trains);
  if (trains) begin_generation();
  interruption_.attempt([&] {
    study_.begin(folder.path(), first_steps_[own_rank()], communicator_->rank() == first_trainer());
    for (const auto& one : listeners_) {
      one->begin({.folder = folder.path(),
                  .rank = communicator_->rank(),
                  .ranks = communicator_->size(),
                  .first_step = first_steps_[own_rank()],
                  .shown = followers_.empty() ? 0 : first_trainer()});
    }
  });
  if (communicator_->rank() == 0 && !choices_.links.file.empty()) {
    write_file_atomic(folder.path() / "link.toml", choices_.links.file);
  }
  const Links::Rank link = choices_.links.rank(communicator_->rank());
  replica_.slow_down({link.compute, link.delay});
  if (const std::string report = task_->data_report(idle_); !report.empty()) say(report);
  if (clips(choices_.optimiser.clip, "before")) replica_.clip_gradients(choices_.optimiser.clip);
  if (!choices_.amp.entry->native()) {
    say(fmt::format("warning: {}: this processor has no instructions for it, and steps take longer than with floats",
                    spelled(named("amp", options_.amp), choices_.spelling)));
  }
  for (const std::string& remark : plan_.remarks(choices_)) say(spelled(remark, choices_.spelling));
  if (communicator_->size() == 1 && options_.codec != TrainOptions{}.codec) {
    say(spelled(fmt::format("a single rank has nobody to send to; {} says how many there are", named("ranks")),
                choices_.spelling));
  }
  for (const std::string& doubt : {weights_doubt_, groups_doubt("group", choices_.optimiser.groups, task_->layout()),
                                   plan_.doubt(choices_.algorithm, replica_.buckets())}) {
    if (!doubt.empty()) say("warning: " + spelled(doubt, choices_.spelling));
  }
}

// Runs after the last step of this start, which is the same for all ranks.
void Run::end(TrainResult& result) {
  algorithm_->drain();
  if (remark_.empty()) remark_ = algorithm_->status().remark;  // what the last step chose
  interruption_.attempt([this] { study_.finish(); });
  say_of_study();
  const int urgency = interruption_.agreed_urgency(*communicator_);
  save(Kept::always);
  const auto end_if_failed = [this](int agreed) {
    if (agreed < StopSignal::failed_rank) return;
    const int rank = agreed - StopSignal::failed_rank;
    say(fmt::format("step {}  stopped because of an error of rank {}, with a checkpoint", done_, rank));
    interruption_.end_in_error(rank, done_);
  };
  end_if_failed(urgency);
  const auto end_by_signal = [&](int agreed) { result.signal = std::max(1, StopSignal::of_urgency(agreed)); };
  const bool leaves_out_test = urgency > 0 && !is_tested_ && !world_.coordinated;
  if (leaves_out_test || (done_ < plan_.steps && (urgency > 0 || !evaluations_.reached()))) end_by_signal(urgency);
  if (!is_tested_ && result.signal == 0) {
    evaluate();
    if (best_step() == done_) folder_->remove_superseded(done_);
    const int urgency_of_test = interruption_.agreed_urgency(*communicator_);
    end_if_failed(urgency_of_test);
    if (!is_tested_) end_by_signal(urgency_of_test);
  }
  if (!is_tested_) tested_ = untested(choices_.task->metrics, choices_.task->goal_metric());
  result.steps = done_;
  result.tested = tested_.metrics;
}

// Runs before ranks with different algorithms could send each other anything.
std::unique_ptr<Algorithm> Run::make_same_algorithm() {
  require_same_start(choices_, *task_, *communicator_, rollback_ != nullptr);
  return make_planned_algorithm();
}

std::unique_ptr<Algorithm> Run::make_planned_algorithm() {
  return make_algorithm(choices_.algorithm,
                        {.phases = plan_.phases,
                         .topology = choices_.topology,
                         .mixing = choices_.mixing,
                         .node_size = static_cast<int>(options_.node_size),
                         .overlap = options_.overlap,
                         .seed = seed(),
                         .codec_threads = static_cast<int>(options_.codec_threads),
                         .topologies = plan_.topologies},
                        replica_.buckets(), *communicator_);
}

// A bad method is reported before the ranks meet.
std::string Run::method() const {
  check_phases(plan_.phases, replica_.buckets());
  return text_of(plan_.phases);
}

// The number of steps that each rank has made. REQUIRES drain().
std::vector<std::uint64_t> Run::rank_steps() const {
  if (together_) return algorithm_->own_speed()->rank_steps();
  return std::vector<std::uint64_t>(static_cast<std::size_t>(communicator_->size()), done_);
}

// A step of the run is one step of each rank. If ranks count together, it is as many steps as there are ranks,
// whichever ranks made them. Returns the step that they have reached.
std::uint64_t Run::step_of_meeting() const {
  const std::vector<std::uint64_t> steps = rank_steps();
  return calendar_.step_of_meeting(
      meeting_, std::reduce(steps.begin(), steps.end()) / static_cast<std::uint64_t>(communicator_->size()));
}

// Makes this rank's step number `step`. Returns whether training ends here.
bool Run::train_step(std::uint64_t step) {
  const OwnSpeed* own_speed = algorithm_->own_speed();
  const std::uint64_t before = done_, rate_step = own_speed ? own_speed->rate_step() : step;
  if (keeps(step)) keep(step);
  if (step == world_.planned_end()) leave_as_planned(step);
  require_group();
  TrainedStep row;
  row.step = step;
  row.rank = own_rank();
  const std::uint64_t counted = together_ ? rate_step : step;
  row.epoch = course_.epochs_at(counted);
  row.epoch_number = course_.epoch_of(counted);
  row.iteration = counted - course_.first_step_in(row.epoch_number);
  row.lr = lr_at(rate_step);
  const bool studied = study_.due(step) && !interruption_.failed() && !follows_;
  if (studied) {
    interruption_.attempt([&] { replica_.copy_next_gradient(study_.room(task_->gradient().size())); });
    say_of_study();
  }
  const Tally trained_before = listeners_.empty() ? Tally() : task_->trained();
  const bool wish = interruption_.wished(algorithm_->traits().can_go_on) ||
                    (heartbeat_ && (followers_.empty() ? heartbeat_->wants_change() : wishes_to_join()));
  StepReport report = algorithm_->step(replica_, {step, row.lr, wish, meeting_});
  is_saved_ = is_tested_ = false;
  const LossScale* scale = replica_.loss_scale();
  const bool is_void = scale != nullptr && scale->is_void();
  if (!together_) done_ = step + 1;
  const bool completes = report.stop || report.meets || done_ == plan_.steps || averages_batch_norm_ ||
                         calendar_.due(before, done_).any() || study_.needs_rest(step);
  if (completes) {  // others will use the communicator, and rows record the step's cost
    report += algorithm_->drain();
  }
  if (report.meets) {
    done_ = step_of_meeting();
    meeting_ = calendar_.next_meeting(done_);
  }
  if (averages_batch_norm_) average_batch_norm(report);
  row.set_report(report);
  row.data_ms = replica_.data_seconds() * 1e3;
  const Traffic now = traffic();
  row.bytes_sent = now.bytes_sent - counted_.bytes_sent;
  row.bytes_received = now.bytes_received - counted_.bytes_received;
  counted_ = now;
  steps_.seconds += report.seconds;
  steps_.bytes_sent += row.bytes_sent;
  interruption_.attempt([&] {
    if (!follows_) recorder_->add(row);
    if (studied && !is_void && !interruption_.failed()) {
      study_.start(step, task_->layout(), *algorithm_, replica_.buckets());
    }
  });
  if (algorithm_->exchanges(step)) note_lap();
  tell(row, trained_before);
  say_of_rows();
  if (is_void) {
    say(fmt::format("step {}  is left out: a gradient overflowed; the loss scale is {} from now on", step,
                    scale->value()));
  }
  announce_phase(step);
  if (std::string remark = algorithm_->status().remark; remark.size() > remark_.size()) {  // more was chosen
    remark_ = std::move(remark);
    say(remark_);
  }

  bool ends = done_ == plan_.steps;
  const Calendar::Due due = calendar_.due(before, done_);
  const bool all_needed = !followers_.empty() && (report.stop || ends || due.any());
  if (all_needed) bring_up_to_date();
  if (ends && options_.final_average) average_models();
  if (due.comparison) check_replicas();
  show(row, std::max(done_, together_ ? rate_step : 0));
  if (due.evaluation) ends = evaluate_due() || ends;
  if (due.checkpoint) save(Kept::always);
  if (due.evaluation && !ends) save_beside();
  const bool pauses = report.stop || report.meets || (all_needed && algorithm_->exchanges(step));
  if (pauses && !ends) ends = !goes_on();
  if (completes) counted_ = traffic();  // otherwise later traffic counts in the next row
  return ends;
}

// All ranks have stopped together. If none wants to end, they go on, after a checkpoint if one is overdue.
bool Run::goes_on() {
  const bool changes = agreed_change();
  if (!changes && interruption_.agreed_urgency(*communicator_) != 0) return false;
  if (interruption_.agreed_late(*communicator_)) save(Kept::by_clock);
  const bool joins = !followers_.empty() && !world_.planned();
  if (changes || joins) leave_group();
  algorithm_->go_on();
  return true;
}

// Runs after an evaluation, if training goes on.
void Run::save_beside() {
  if (options_.keep_best && best_step() == done_) save(Kept::as_best);
  if (!algorithm_->traits().can_go_on && interruption_.agreed_late(*communicator_)) save(Kept::by_clock);
}

void Run::average_models() {
  algorithm_->drain();
  algorithm_->average_models(replica_);
  is_saved_ = false;
  kept_.reset();
}

// REQUIRES a replicated algorithm, and drain().
void Run::average_batch_norm(StepReport& report) {
  const Timer timer;
  aggregate(task_->buffers(), Op::avg, *communicator_);
  const double seconds = timer.seconds();
  report.timings.network += seconds;
  report.wait += seconds;
  report.seconds += seconds;
}

void Run::check_replicas() {
  algorithm_->drain();
  require_same_parameters(task_->parameters(), done_, *communicator_);
}

}  // namespace sotto
