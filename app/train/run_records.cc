// What a run writes to its folder, and what it prints.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/train/batch_norm.h"
#include "app/train/evaluate.h"
#include "app/train/identity.h"
#include "app/train/other_ranks.h"
#include "app/train/run.h"
#include "app/train/stop_signal.h"
#include "app/train/summary.h"
#include "sotto/core/file.h"

namespace sotto {

// Takes up the course of a checkpoint. ConfigError if the checkpoint is of another model, other data, and so on.
void Run::take_up(const Manifest& manifest) {
  const std::string folder = checkpoint::folder(folder_->path(), manifest.step).string();
  const bool same = require_resumable(choices_, folder, manifest, identity_, continues_.has_value());

  const StepSize size = step_size(communicator_->size());
  Course course(Epochs::of(task_->epochs().each), size);
  if (!manifest.course.empty()) course = Course::of_text(manifest.course);
  if (course.start().position > manifest.step * course.size().accumulate) {
    throw FileError(folder + ": its course begins after its step");
  }
  take_course(same ? std::move(course) : course.changed(manifest.step, size));
  require_identity(folder, manifest.identity, {{"codec", method_}});
}

// From now on steps mean what this course says.
void Run::take_course(Course course) {
  task_->go_on(course.start(), share());
  course.set_epochs(task_->epochs());
  course_ = std::move(course);
  plan_ = plan_run(choices_, course_, replica_.optimiser().dense_steps());
  calendar_ = Calendar(options_, course_, plan_.steps);
  schedule_ = make_schedule(choices_.schedule, plan_.horizon, plan_.epoch);
  identity_["codec"] = method_ = method();
}

// Resumes from the newest intact checkpoint.
void Run::resume(RunFolder& folder) {
  const std::string planned = method_;
  const auto left_aside = folder.choose_checkpoint([this](const Manifest& manifest) { take_up(manifest); });
  for (const std::string& line : left_aside) say("left aside: " + line);
  if (folder.start_step() == 0) return say("no checkpoint yet: starting at step 0");
  if (folder.written_by() != communicator_->size()) {
    say(
        fmt::format("rank count changed from {} to {}: what is left of epoch {} comes first, what ranks held back "
                    "becomes their mean, schedules go on by examples",
                    folder.written_by(), communicator_->size(), course_.epoch_of(folder.start_step())));
  }
  if (method_ != planned) algorithm_ = make_planned_algorithm();  // the first start planned its phases otherwise
  algorithm_->enter(folder.start_step());
  folder.load(replica_, *algorithm_, before_);
  if (folder.written_by() != communicator_->size() && algorithm_->own_speed() != nullptr) {
    algorithm_->own_speed()->begin_at(folder.start_step());
  }
  is_saved_ = true;
  kept_ = folder.start_step();
  say(fmt::format("resumed from {}", checkpoint::folder(folder.path(), folder.start_step()).string()));
}

// A checkpoint that is kept forever replaces one of the same step that is not.
void Run::save(Kept kept) {
  if (is_saved_ && (kept != Kept::always || kept_ == done_)) return;
  if (kept != Kept::always && kept_ == done_) return;
  if (recorder_ != nullptr) {  // rows are on disk before their checkpoint
    interruption_.attempt([this] { recorder_->flush(); });
    say_of_rows();
  }
  algorithm_->drain();
  algorithm_->enter(done_);
  // So no checkpoint is later than where they go back to; but at the end there must be a step to take again.
  const bool ends = done_ == plan_.steps || evaluations_.reached();
  if (rollback_ != nullptr && recorder_ != nullptr && algorithm_->elastic()->lead() > 0 && !ends) keep_together();
  lend_batch_norm(*task_, idle_, *communicator_);
  Manifest manifest{
      .run = {}, .step = done_, .kept = kept, .course = course_.text(), .identity = identity_, .parts = {}};
  if (!followers_.empty()) {  // whoever goes on from here has all ranks
    StepSize all = course_.size();
    all.ranks += followers_.size();
    manifest.course = course_.changed(done_, all).text();
    manifest.identity["ranks"] = std::to_string(communicator_->size());
  }
  folder_->save(std::move(manifest), best_step(), replica_, *algorithm_, totals());
  is_saved_ = true;
  if (kept == Kept::always) kept_ = done_;
  interruption_.saved();
  if (rollback_ != nullptr) rollback_->since_checkpoint = interruption_.since_checkpoint();
}

std::optional<std::uint64_t> Run::best_step() const {
  if (!options_.keep_best || !evaluations_.best()) return std::nullopt;
  return evaluations_.best()->step;
}

// What this rank's steps have used so far, over all starts, without evaluations and checkpoints.
RunTotals Run::totals() const {
  return {before_.seconds + steps_.seconds,
          before_.bytes_sent + (own_speed_ ? algorithm_->status().traffic.bytes_sent : steps_.bytes_sent)};
}

// Afterwards `is_tested_` says whether a signal broke it off. With a coordinator none does, since the ranks that were
// not asked to stop go on. Collective.
void Run::evaluate() {
  algorithm_->drain();
  const RunTotals spent = totals();
  lend_batch_norm(*task_, idle_, *communicator_);
  const auto tested = test_together(
      replica_, replicated_, choices_.task->goal_metric(), *communicator_, [this](std::uint64_t examples) {
        require_group();
        if (StopSignal::caught() != 0 && !world_.coordinated) throw BrokenOff();
        if (own_rank() != 0 || !progress_.due()) return;
        progress_.show(fmt::format("step {}  {} examples of rank 0 are evaluated", done_, examples));
      });
  if (!tested) return say(fmt::format("step {}  the evaluation is left out, since a signal stops the run", done_));
  tested_ = *tested;
  is_tested_ = true;
  say(fmt::format("step {}  {}", done_, tested_.text()));
  if (!evaluations_.has(done_)) record(spent);
}

// Returns whether training ends here: the target is reached, or a signal broke the evaluation off.
bool Run::evaluate_due() {
  evaluate();
  if (!is_tested_) return true;
  follow_evaluation();
  if (!evaluations_.reached() || done_ == plan_.steps) return false;
  say(reached_text());
  if (options_.final_average) average_models();
  return true;
}

// An evaluation that is not due, such as the one at the end of a run, changes no rate: a run that goes on from there
// must have the bits of an undisturbed one.
void Run::follow_evaluation() {
  Plateau* plateau = schedule_.plateau();
  if (plateau == nullptr) return;
  const Metric& metric = plateau->metric() == "goal" ? choices_.task->goal_metric()
                                                     : *metric_table(choices_.task->metrics).find(plateau->metric());
  if (!plateau->evaluated(tested_.metrics.value(metric.name), metric.rises)) return;
  say(fmt::format("step {}  {} has stopped to improve: learning rate times {:.6g}", done_, metric.name,
                  plateau->factor()));
}

void Run::record(const RunTotals& spent) {
  Tally sums = task_->trained();
  sums.push_back(static_cast<double>(spent.bytes_sent));
  communicator_->all_reduce(std::span<double>(sums));
  const auto bytes = static_cast<std::uint64_t>(sums.back());
  sums.pop_back();
  const EvaluationRow tested{done_, course_.epochs_at(done_), spent.seconds, bytes, Split::test, tested_.metrics};
  EvaluationRow trained = tested;
  trained.split = Split::train;
  trained.metrics = task_->metrics(sums);
  std::vector<EvaluationRow> rows{tested};
  if (!trained.metrics.values.empty()) rows.insert(rows.begin(), trained);
  std::ranges::fill(task_->trained(), 0.0);
  evaluations_.add(tested);
  if (communicator_->rank() == 0) {
    interruption_.attempt([&] { evaluations_.append(folder_->path(), rows); });
  }
  if (interruption_.failed()) return;
  interruption_.attempt([&] {
    for (const auto& one : listeners_) one->evaluated(rows, tested_);
  });
}

// Listeners hear nothing more after an error, which may be their own. `before` is the tally before the step.
void Run::tell(TrainedStep& row, const Tally& before) {
  if (listeners_.empty() || interruption_.failed() || follows_) return;
  Tally made = task_->trained();
  for (std::size_t i = 0; i < before.size(); ++i) made[i] -= before[i];
  row.measured = task_->metrics(made);
  interruption_.attempt([&] {
    for (const auto& one : listeners_) one->stepped(row);
  });
}

std::string Run::reached_text() const {
  return fmt::format("step {}  {} is reached", evaluations_.reached()->step, evaluations_.target()->text());
}

// No step was left to do in this start, but perhaps the test of a run that a signal ended before it.
void Run::note_untrained() {
  std::string noted;
  if (communicator_->rank() == 0) {
    const std::filesystem::path path = folder_->path() / "summary.json";
    const auto& best = evaluations_.best();
    if (note_test(path, done_, tested_, best, best ? folder_->name_of(best->step) : ""))
      noted = " got the test, and else";
    if (evaluations_.reached()) note_target(path, *evaluations_.target(), *evaluations_.reached());
  }
  if (evaluations_.reached()) {
    return say(
        fmt::format("nothing was left to do: {}; summary.json says so, and else stays as it was", reached_text()));
  }
  const bool has_summary = path_exists(folder_->path() / "summary.json");
  say(fmt::format("nothing was left to do: the run ends after {} steps, as {} and {} say{}", plan_.steps,
                  spelled(named("epochs", std::to_string(options_.epochs)), choices_.spelling),
                  spelled(named("max-steps", format_optional(options_.max_steps)), choices_.spelling),
                  has_summary ? fmt::format("; summary.json{} stays as it was", noted) : ""));
}

Traffic Run::traffic() const {
  Traffic all = communicator_->traffic();
  const Traffic own = algorithm_->status().traffic;
  all.bytes_sent += own.bytes_sent;
  all.bytes_received += own.bytes_received;
  return all;
}

void Run::announce_phase(std::uint64_t step) {
  const auto begins = std::ranges::find(plan_.phases, step, &Phase::first_step);
  if (plan_.phases.size() == 1 || begins == plan_.phases.end()) return;
  say(fmt::format("step {}  codec {}", step, begins->recipe.said));
  remark_.clear();  // the new codec's choice is printed again
}

void Run::show(const StepRow& row, std::uint64_t done) {
  if (communicator_->rank() != first_trainer() || !(progress_.due() || done == plan_.steps)) return;
  const double remaining = static_cast<double>(plan_.steps - done) * row.step_ms / 1e3;
  progress_.show(
      fmt::format("step {}/{}  epoch {:.2f}  loss {}  {:.1f} ms (compute {:.1f}, encode {:.1f}, network {:.1f}, decode "
                  "{:.1f})  "
                  "{:.1f} KB sent  {:.0f} s left",
                  done, plan_.steps, course_.epochs_at(done), value_text(row.loss), row.step_ms, row.compute_ms,
                  row.encode_ms, row.network_ms, row.decode_ms, static_cast<double>(row.bytes_sent) / 1e3, remaining));
}

void Run::say_of_rows() {
  if (const std::string remark = recorder_->take_remark(); !remark.empty()) say("warning: " + remark);
}

// REQUIRES that the thread of the study rests.
void Run::say_of_study() {
  if (own_rank() != static_cast<std::size_t>(idle_)) return;
  if (const std::string remark = study_.take_remark(); !remark.empty()) progress_.say("warning: " + remark);
}

void Run::say(const std::string& line) {
  if (communicator_->rank() == 0) progress_.say(line);
}

void Run::summarise(const TrainResult& result, std::uint64_t first_step) {
  Recorder::Figures figures = recorder_->means();
  const std::vector<std::uint64_t> steps = rank_steps();
  if (own_speed_) {  // traffic belongs to no step, and continues after the last row
    const std::uint64_t made = steps[own_rank()] - first_steps_[own_rank()];
    figures.bytes_sent = static_cast<double>(algorithm_->status().traffic.bytes_sent) / static_cast<double>(made);
  }
  const OwnSpeed* apart = algorithm_->own_speed();
  const LossScale* scale = replica_.loss_scale();
  const std::array<std::uint64_t, 4> mine = {traffic().bytes_sent, static_cast<std::uint64_t>(figures.bytes_sent),
                                             apart ? apart->exchange_count() : 0, scale ? scale->skipped() : 0};
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(communicator_->size()));
  communicator_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  double median_ms = recorder_->median_step_ms();
  if (!followers_.empty()) {  // these have no rows
    communicator_->broadcast(std::as_writable_bytes(std::span(&figures, 1)), first_trainer());
    communicator_->broadcast(std::as_writable_bytes(std::span(&median_ms, 1)), first_trainer());
  }
  if (communicator_->rank() != 0) return;

  Summary summary;
  summary.options = options_;
  summary.method = method_;
  summary.optimiser = choices_.optimiser.spec.text();
  summary.lr = choices_.optimiser.lr;
  summary.aggregator = algorithm_->status().aggregator;
  summary.remark = remark_;
  summary.step = figures;
  summary.median_step_ms = median_ms;
  summary.first_step = first_step;
  summary.steps = result.steps;
  if (apart) summary.rank_steps = steps;
  if (scale) summary.loss_scale = scale->value();
  summary.signal = result.signal;
  summary.tested = tested_;
  summary.diverged = is_tested_ && !makes_sense(tested_, task_->loss_of_guessing());
  summary.best = evaluations_.best();
  if (summary.best) summary.best_checkpoint = folder_->name_of(summary.best->step);
  summary.target = evaluations_.target();
  summary.reached = evaluations_.reached();
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    summary.bytes_sent.push_back(all[i]);
    summary.bytes_per_step.push_back(all[i + 1]);
    if (apart) summary.exchanges.push_back(all[i + 2]);
    if (i == 0 || !replicated_) summary.skipped_steps += all[i + 3];
  }
  summary.dense_bytes_per_step = communicator_->all_reduce_bytes(task_->layout().size(), DType::f32);
  summary.parameters = task_->layout().numel();
  summary.parameters_sha256 = folder_->parameters_sha256();
  summary.seconds = total_.seconds();
  write_summary(folder_->path() / "summary.json", summary);
}

}  // namespace sotto
