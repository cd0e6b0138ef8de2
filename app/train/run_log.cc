#include "app/train/run_log.h"

#include <fmt/format.h>

#include <numeric>

namespace sotto {

RunLog::RunLog(Session& session, bool may_change)
    : session_(session),
      progress_(session.world().starter),
      listeners_(make_listeners(session.choices(), session.world().rank, may_change)),
      evaluations_(session.choices().task->metrics, session.choices().task->goal_metric(), session.choices().until) {}

void RunLog::say(const std::string& line, int rank) {
  if (session_.rank() == rank) progress_.say(line);
}

void RunLog::warn(const std::string& text, int rank) {
  if (!text.empty()) say("warning: " + text, rank);
}

void RunLog::say_of_start() {
  const Choices& choices = session_.choices();
  if (const std::string report = session_.task().data_report(session_.idle()); !report.empty()) say(report);
  if (!choices.amp.entry->native()) {
    warn(fmt::format("{}: this processor has no instructions for it, and steps take longer than with floats",
                     spelled(named("amp", choices.options.amp), choices.spelling)));
  }
  for (const std::string& remark : session_.plan().remarks(choices)) say(spelled(remark, choices.spelling));
  if (session_.ranks() == 1 && choices.options.codec != TrainOptions{}.codec) {
    say(spelled(fmt::format("a single rank has nobody to send to; {} says how many there are", named("ranks")),
                choices.spelling));
  }
  for (const std::string& doubt : session_.doubts()) warn(spelled(doubt, choices.spelling));
}

std::string RunLog::reached_text() const {
  return fmt::format("step {}  {} is reached", evaluations_.reached()->step, evaluations_.target()->text());
}

void RunLog::say_reached() { say(reached_text()); }

void RunLog::begin(std::span<const std::uint64_t> first_steps, bool continues) {
  evaluations_.take_up(session_.folder().begin(first_steps, evaluations_));
  if (!continues) return;
  // Ranks that have left took their counts with them, but the rows hold their bytes, except those of the last second of
  // a killed rank. If ranks go at their own speed, bytes belong to no row.
  const std::vector<std::uint64_t> sent = session_.gather(before_.bytes_sent);
  if (session_.rank() != 0 || session_.own_speed()) return;
  const std::uint64_t known = std::reduce(sent.begin(), sent.end());
  before_.bytes_sent += std::max(session_.folder().recorded_bytes(), known) - known;
}

void RunLog::begin_listeners(std::uint64_t first_step) {
  for (const auto& one : listeners_) {
    one->begin({.folder = session_.folder().path(),
                .rank = session_.rank(),
                .ranks = session_.ranks(),
                .first_step = first_step,
                .shown = session_.followers().empty() ? 0 : session_.first_trainer()});
  }
}

void RunLog::open() { recorder_.emplace(session_.folder().path(), session_.rank()); }

void RunLog::flush() {
  if (!recorder_) return;
  session_.interruption().attempt([this] { recorder_->flush(); });
  warn(recorder_->take_remark());
}

RunTotals RunLog::totals() const {
  return {before_.seconds + steps_.seconds,
          before_.bytes_sent +
              (session_.own_speed() ? session_.algorithm().status().traffic.bytes_sent : steps_.bytes_sent)};
}

Traffic RunLog::traffic() const {
  Traffic all = session_.communicator().traffic();
  const Traffic own = session_.algorithm().status().traffic;
  all.bytes_sent += own.bytes_sent;
  all.bytes_received += own.bytes_received;
  return all;
}

void RunLog::add_step(TrainedStep& row, const StepReport& report) {
  row.set_report(report);
  row.data_ms = session_.replica().data_seconds() * 1e3;
  const Traffic now = traffic();
  row.bytes_sent = now.bytes_sent - counted_.bytes_sent;
  row.bytes_received = now.bytes_received - counted_.bytes_received;
  counted_ = now;
  steps_.seconds += report.seconds;
  steps_.bytes_sent += row.bytes_sent;
  if (!session_.follows()) session_.interruption().attempt([&] { recorder_->add(row); });
}

// Listeners hear nothing more after an error, because it may come from one of them.
void RunLog::tell(TrainedStep& row, const Tally& before) {
  Interruption& interruption = session_.interruption();
  if (!listeners_.empty() && !interruption.failed() && !session_.follows()) {
    Tally made = session_.task().trained();
    for (std::size_t i = 0; i < before.size(); ++i) made[i] -= before[i];
    row.measured = session_.task().metrics(made);
    interruption.attempt([&] {
      for (const auto& one : listeners_) one->stepped(row);
    });
  }
  warn(recorder_->take_remark());
  if (const LossScale* scale = session_.replica().loss_scale(); scale != nullptr && scale->is_void()) {
    say(fmt::format("step {}  is left out: a gradient overflowed; the loss scale is {} from now on", row.step,
                    scale->value()));
  }
  announce_phase(row.step);
  if (std::string remark = session_.algorithm().status().remark; remark.size() > remark_.size()) {  // more was chosen
    remark_ = std::move(remark);
    say(remark_);
  }
}

void RunLog::announce_phase(std::uint64_t step) {
  const std::vector<Phase>& phases = session_.plan().phases;
  const auto begins = std::ranges::find(phases, step, &Phase::first_step);
  if (phases.size() == 1 || begins == phases.end()) return;
  say(fmt::format("step {}  codec {}", step, begins->recipe.source_text));
  remark_.clear();  // the new codec's choice is printed again
}

void RunLog::take_choice() {
  if (remark_.empty()) remark_ = session_.algorithm().status().remark;
}

void RunLog::show(const StepRow& row, std::uint64_t done) {
  const std::uint64_t steps = session_.plan().steps;
  if (session_.rank() != session_.first_trainer() || !(progress_.due() || done == steps)) return;
  const double remaining = static_cast<double>(steps - done) * row.step_ms / 1e3;
  progress_.show(
      fmt::format("step {}/{}  epoch {:.2f}  loss {}  {:.1f} ms (compute {:.1f}, encode {:.1f}, network {:.1f}, decode "
                  "{:.1f})  {:.1f} KB sent  {:.0f} s left",
                  done, steps, session_.course().epochs_at(done), value_text(row.loss), row.step_ms, row.compute_ms,
                  row.encode_ms, row.network_ms, row.decode_ms, static_cast<double>(row.bytes_sent) / 1e3, remaining));
}

void RunLog::show_evaluation(std::uint64_t done, std::uint64_t examples) {
  if (session_.rank() != 0 || !progress_.due()) return;
  progress_.show(fmt::format("step {}  {} examples of rank 0 are evaluated", done, examples));
}

void RunLog::add_evaluation(std::uint64_t done, const TestResult& result, const RunTotals& spent) {
  say(fmt::format("step {}  {}", done, result.text()));
  if (evaluations_.has(done)) return;
  Task& task = session_.task();
  Tally sums = task.trained();
  sums.push_back(static_cast<double>(spent.bytes_sent));
  session_.communicator().all_reduce(std::span<double>(sums));
  const auto bytes = static_cast<std::uint64_t>(sums.back());
  sums.pop_back();
  const double epoch = session_.course().epochs_at(done);
  const EvaluationRow tested{done, epoch, spent.seconds, bytes, Split::test, result.metrics};
  EvaluationRow trained = tested;
  trained.split = Split::train;
  trained.metrics = task.metrics(sums);
  std::vector<EvaluationRow> rows{tested};
  if (!trained.metrics.values.empty()) rows.insert(rows.begin(), trained);
  std::ranges::fill(task.trained(), 0.0);
  evaluations_.add(tested);
  Interruption& interruption = session_.interruption();
  if (session_.rank() == 0) interruption.attempt([&] { evaluations_.append(session_.folder().path(), rows); });
  if (interruption.failed()) return;
  interruption.attempt([&] {
    for (const auto& one : listeners_) one->evaluated(rows, result);
  });
}

}  // namespace sotto
