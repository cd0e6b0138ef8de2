#include "app/train/latest_model.h"

#include <fmt/format.h>

namespace sotto {

void LatestModel::resumed() {
  is_saved_ = done_ > 0;
  if (is_saved_) kept_ = done_;
}

TestResult LatestModel::tested() const {
  if (is_tested_) return tested_;
  const TaskEntry& task = *session_.choices().task;
  const std::vector<double> none(task.metrics.size(), std::numeric_limits<double>::quiet_NaN());
  return {.metrics = {task.metrics, none}, .goal = task.goal_metric(), .rank_goals = {}};
}

void LatestModel::evaluate_last() {
  evaluate();
  if (best_step() == done_) session_.folder().remove_superseded(done_);
}

void LatestModel::save(Kept kept) {
  if (is_saved_ && (kept != Kept::always || kept_ == done_)) return;
  if (kept != Kept::always && kept_ == done_) return;
  log_.flush();  // rows are on disk before their checkpoint
  session_.algorithm().drain();
  session_.algorithm().enter(done_);
  // No checkpoint may be later than the step to which ranks go back. At the end of the run it may: ranks that go back
  // need a step to make again.
  if (log_.is_open() && !is_over() && !log_.evaluations().reached()) group_.keep_together(done_);
  lend_batch_norm(session_.task(), session_.idle(), session_.communicator());
  Manifest manifest = session_.manifest_of_all(done_);
  manifest.kept = kept;
  session_.folder().save(std::move(manifest), best_step(), session_.replica(), session_.algorithm(), log_.totals());
  is_saved_ = true;
  if (kept == Kept::always) kept_ = done_;
  group_.note_save();
}

void LatestModel::save_if_best_or_late() {
  if (best_step() == done_) save(Kept::as_best);
  const bool asks = !session_.algorithm().traits().can_go_on;  // otherwise ranks agree on that when they stop
  if (asks && session_.interruption().agreed_late(session_.communicator())) save(Kept::by_clock);
}

std::optional<std::uint64_t> LatestModel::best_step() const {
  const auto& best = log_.evaluations().best();
  if (!session_.options().keep_best || !best) return std::nullopt;
  return best->step;
}

// With a coordinator, a signal does not break off the evaluation, since ranks that got no signal continue.
void LatestModel::evaluate() {
  session_.algorithm().drain();
  const RunTotals spent = log_.totals();
  lend_batch_norm(session_.task(), session_.idle(), session_.communicator());
  const auto tested = test_together(session_.replica(), session_.replicated(), session_.choices().task->goal_metric(),
                                    session_.communicator(), [this](std::uint64_t examples) {
                                      group_.require_group(done_);
                                      if (StopSignal::caught() != 0 && !session_.world().coordinated) throw BrokenOff();
                                      log_.show_evaluation(done_, examples);
                                    });
  if (!tested) {
    return log_.say(fmt::format("step {}  the evaluation is left out, since a signal stops the run", done_));
  }
  tested_ = *tested;
  is_tested_ = true;
  log_.add_evaluation(done_, tested_, spent);
}

bool LatestModel::evaluate_due() {
  evaluate();
  if (!is_tested_) return true;
  follow_evaluation();
  if (!log_.evaluations().reached() || is_over()) return false;
  log_.say_reached();
  if (session_.options().final_average) average();
  return true;
}

// Lets a due evaluation change the learning rate. Others, such as the one at the end of a run, must not: a run that
// continues from there has the bits of an undisturbed one.
void LatestModel::follow_evaluation() {
  Plateau* plateau = session_.schedule().plateau();
  if (plateau == nullptr) return;
  const TaskEntry& task = *session_.choices().task;
  const Metric& metric =
      plateau->metric() == "goal" ? task.goal_metric() : *metric_table(task.metrics).find(plateau->metric());
  if (!plateau->evaluated(tested_.metrics.value(metric.name), metric.rises)) return;
  log_.say(fmt::format("step {}  {} has stopped to improve: learning rate times {:.6g}", done_, metric.name,
                       plateau->factor()));
}

void LatestModel::average() {
  session_.algorithm().drain();
  session_.algorithm().average_models(session_.replica());
  is_saved_ = false;
  kept_.reset();
}

}  // namespace sotto
