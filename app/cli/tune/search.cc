#include "app/cli/tune/search.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "app/launch/signals.h"
#include "app/report/run_summary.h"
#include "app/train/folder/checkpoint.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// The first steps of the training. Continues the run folder of an earlier round, or of an interrupted search.
TrainOptions job_of(const Trial& trial, std::uint64_t steps) {
  TrainOptions options = trial.options;
  const auto most = static_cast<std::int64_t>(steps);
  options.max_steps = std::min(most, options.max_steps.value_or(most));
  options.train_dir = trial.folder;
  options.master.clear();
  std::error_code missing;
  options.resume = std::filesystem::is_directory(trial.folder, missing);
  return options;
}

// The step from which the run folder of a trial continues.
std::uint64_t first_step(const std::string& folder) {
  const std::vector<std::uint64_t> steps = checkpoint::find(folder);
  return steps.empty() ? 0 : steps.back();
}

// Removes the last checkpoint of a trial that was killed between it and the summary: the trial would have nothing left
// to do, and no result. Now it makes its last steps again.
void remove_if_unsummarised(const std::string& folder) {
  const std::vector<std::uint64_t> steps = checkpoint::find(folder);
  if (steps.empty()) return;
  const std::filesystem::path last = checkpoint::folder(folder, steps.back());
  try {
    if (Manifest::of_text(read_manifest_text(last)).kept != Kept::always) return;  // it has steps left to make
    if (path_exists(folder + "/summary.json") && read_summary(folder).steps >= steps.back()) return;
  } catch (const FileError&) {  // it is damaged; the training will say so
    return;
  }
  std::filesystem::remove_all(last);
}

}  // namespace

Search::Search(std::vector<Trial>& trials, std::size_t seeds, std::vector<Round> rounds, Scoring scoring,
               const TrialRecord& record, std::size_t jobs)
    : trials_(trials),
      seeds_(seeds),
      contenders_(contenders_of(trials, seeds)),
      rounds_(std::move(rounds)),
      scoring_(scoring),
      record_(record),
      jobs_(jobs) {}

int Search::run() {
  const Signals signals;  // a signal between two rounds also ends the search
  since_.lap();
  std::vector<std::size_t> members(contenders_.size());
  std::iota(members.begin(), members.end(), std::size_t{0});
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    if (round > 0) {
      std::vector<double> scores;
      for (const std::size_t index : members) {
        const Contender& one = contenders_[index];
        scores.push_back(one.rounds() >= round ? one.score(round - 1).mean : std::nan(""));
      }
      std::vector<std::size_t> best = ranked(members, scores);
      best.resize(std::min(best.size(), rounds_[round].trials));
      if (best.size() < 2) break;  // there is nothing left to choose from
      std::ranges::sort(best);
      members = std::move(best);
    }
    run_round(round, members);
    if (is_stop_status(status_)) return status_;
  }
  return status_;
}

// An upper bound of the steps that all trials make in the rounds after this one.
std::uint64_t Search::steps_after(std::size_t round) const {
  std::uint64_t steps = 0;
  for (std::size_t later = round + 1; later < rounds_.size(); ++later) {
    steps += rounds_[later].trials * seeds_ * (rounds_[later].steps - rounds_[later - 1].steps);
  }
  return steps;
}

void Search::run_round(std::size_t round, const std::vector<std::size_t>& members) {
  const std::size_t at_once = std::min(jobs_, members.size() * seeds_);
  std::vector<std::size_t> pending;
  std::vector<LaunchSpec> specs;
  left_ = steps_after(round);
  for (const std::size_t member : members) {
    for (std::size_t index = member * seeds_; index < (member + 1) * seeds_; ++index) {
      const Trial& trial = trials_[index];
      if (trial.diverged || trial.scores.size() > round) continue;
      pending.push_back(index);
      remove_if_unsummarised(trial.folder);
      const std::uint64_t steps = rounds_[round].steps;
      left_ += to_make_[index] = steps - std::min(steps, first_step(trial.folder));
      specs.push_back(train_job(job_of(trial, rounds_[round].steps)));
      specs.back().beside = static_cast<std::int64_t>(at_once);
      specs.back().show_lines = false;
    }
  }
  pending_ = pending.size();
  ended_ = 0;
  const int signal =
      launch_all(specs, at_once, console_,
                 {.progress = [&](std::size_t job, std::string_view text) { show(pending[job], text); },
                  .ended = [&](std::size_t job, const LaunchResult& result) { ended(pending[job], round, result); }});
  console_.clear();
  if (signal != 0) status_ = 128 + signal;
}

void Search::ended(std::size_t index, std::size_t round, const LaunchResult& result) {
  Trial& trial = trials_[index];
  running_.erase(index);
  warnings_.add(trial.name, result.warnings);
  if (result.status != 0) checkpoint::remove_abandoned(trial.folder);
  if (is_stop_status(result.status)) {
    status_ = result.status;
    return;
  }
  ++ended_;
  made_ += to_make_[index];
  left_ -= to_make_[index];
  seconds_ = since_.seconds();
  trial.error = result.error;
  trial.diverged = result.reason == Reason::not_finite;
  std::string text;
  if (result.status == 0) {
    try {
      text = take_result(trial, round);
    } catch (const FileError& error) {
      trial.error = error.what();
      if (status_ == 0) status_ = 1;
    }
  } else if (!trial.diverged) {
    if (status_ == 0) status_ = result.status;
    for (const std::string& line : result.lines) console_.line(stderr, line);
  }
  if (!trial.error.empty()) text = (trial.diverged ? "diverged: " : "failed: ") + trial.error;
  console_.line(stderr, fmt::format("{}/{}  {}: {}", ended_, pending_, trial.name, text));
  record_.write(trials_);
}

// Takes the result of a run into the trial, and returns it in words. FileError.
std::string Search::take_result(Trial& trial, std::size_t round) {
  const TrialResult found = read_result(trial, scoring_);
  trial.diverged = !std::isfinite(found.score);
  trial.reached = found.reached;
  if (trial.diverged) trial.error = fmt::format("its {} is not finite", scoring_.label());
  if (!trial.diverged) trial.scores.push_back(found.score);
  const std::uint64_t wanted = rounds_[round].steps;
  if (found.steps < wanted && !trial.options.until && !std::exchange(is_short_, true)) {
    const auto& most = trial.options.max_steps;
    const bool by_steps = most && static_cast<std::uint64_t>(*most) <= found.steps;
    console_.line(stderr, fmt::format("sotto: warning: {} ended after {} of {} steps: {} has no more", trial.name,
                                      found.steps, wanted,
                                      by_steps ? fmt::format("--max-steps {}", *most)
                                               : fmt::format("--epochs {}", trial.options.epochs)));
  }
  return fmt::format("{} {} after {} steps", scoring_.label(), scoring_.text(found.score), found.steps);
}

void Search::show(std::size_t index, std::string_view text) {
  running_[index] = text.substr(0, text.find("  "));  // "step 3/100"
  std::string line = so_far();
  for (const auto& [trial, step] : running_) line += fmt::format(" | {} {}", trials_[trial].name, step);
  console_.progress(line);
}

std::string Search::so_far() const {
  std::string text = fmt::format("{}/{} done", ended_, pending_);
  if (made_ > 0) {
    const double left = seconds_ * static_cast<double>(left_) / static_cast<double>(made_);
    text += fmt::format(", about {:.0f} s left", std::max(0.0, left - (since_.seconds() - seconds_)));
  }
  const Contender best = order().front();
  if (best.is_sound() && best.rounds() > 0) {
    const Spread score = best.score(best.rounds() - 1);
    text += fmt::format(", best {} ({})", score.text([&](double value) { return scoring_.text(value); }),
                        best.trials().front().name);
  }
  return text;
}

std::vector<Contender> Search::order() const {
  std::vector<Contender> order;
  // Contenders that diverged or failed come last, even if they came to a later round than others.
  for (const bool sound : {true, false}) append_in_order(sound, order);
  return order;
}

// Members whose scores are finite, the best one first. Lateness counts before scores, since scores after different
// numbers of steps say little.
std::vector<std::size_t> Search::ranked(std::span<const std::size_t> members, std::span<const double> scores) const {
  std::vector<std::size_t> best;
  for (const std::size_t at : best_of(scores, scores.size(), scoring_.rises())) best.push_back(members[at]);
  std::ranges::stable_sort(best, {}, [&](std::size_t index) { return contenders_[index].lateness(); });
  return best;
}

void Search::append_in_order(bool sound, std::vector<Contender>& order) const {
  for (std::size_t rounds = rounds_.size() + 1; rounds-- > 0;) {
    std::vector<std::size_t> members;
    std::vector<double> scores;
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      const Contender& one = contenders_[i];
      if (one.rounds() != rounds || one.is_sound() != sound) continue;
      members.push_back(i);
      scores.push_back(rounds == 0 ? 0 : one.score(rounds - 1).mean);
    }
    for (const std::size_t index : ranked(members, scores)) order.push_back(contenders_[index]);
  }
}

}  // namespace sotto
