#include "app/cli/tune/trials.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/report/recorded_run.h"
#include "app/report/run_summary.h"
#include "app/train/options/choices.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t scored_share = 10;  // the last tenth of the steps

double mean_loss(const Curve& loss, bool leaves_out_steps) {
  const std::size_t count = (loss.size() + scored_share - 1) / scored_share;
  double sum = 0, counted = 0;
  for (std::size_t i = loss.size() - count; i < loss.size(); ++i) {
    if (leaves_out_steps && !std::isfinite(loss.mean[i])) continue;
    sum += loss.mean[i];
    ++counted;
  }
  return sum / counted;  // NaN if no step counts
}

Json to_json(std::span<const Dimension> space, const Trial& trial) {
  Json options = Json::object();
  for (std::size_t i = 0; i < space.size(); ++i) options[space[i].name] = trial.point[i];
  options["seed"] = std::to_string(trial.options.seed);
  Json json{{"train_dir", trial.folder},
            {"options", options},
            {"scores", trial.scores},
            {"diverged", trial.diverged},
            {"error", trial.error}};
  if (trial.reached) json["reached"] = *trial.reached;
  return json;
}

std::optional<std::uint64_t> reached_by(const RunSummary& run) {
  return run.until && run.until->reached ? std::optional(run.until->step) : std::nullopt;
}

}  // namespace

std::size_t Contender::rounds() const {
  std::size_t least = trials_.front().scores.size();
  for (const Trial& trial : trials_) least = std::min(least, trial.scores.size());
  return least;
}

bool Contender::is_done() const {
  return std::ranges::all_of(trials_, [](const Trial& t) { return !t.scores.empty() || !t.error.empty(); });
}

bool Contender::diverged() const { return std::ranges::any_of(trials_, &Trial::diverged); }

std::string Contender::error() const {
  const auto failed = std::ranges::find_if(trials_, [](const Trial& trial) { return !trial.error.empty(); });
  return failed == trials_.end() ? "" : failed->error;
}

Spread Contender::score(std::size_t round) const {
  std::vector<double> scores;
  for (const Trial& trial : trials_) scores.push_back(trial.scores.at(round));
  return spread_of(scores);
}

std::pair<std::size_t, double> Contender::lateness() const {
  std::size_t missed = 0;
  double steps = 0;
  for (const Trial& trial : trials_) {
    missed += trial.reached ? 0 : 1;
    steps += static_cast<double>(trial.reached.value_or(0));
  }
  const std::size_t reached = trials_.size() - missed;
  return {missed, reached > 0 ? steps / static_cast<double>(reached) : 0};
}

std::vector<Contender> contenders_of(std::span<const Trial> trials, std::size_t seeds) {
  std::vector<Contender> all;
  for (; !trials.empty(); trials = trials.subspan(seeds)) all.emplace_back(trials.first(seeds));
  return all;
}

std::string Scoring::label() const { return metric ? fmt::format("test {}", metric->name) : "loss"; }

std::string Scoring::text(double score) const { return metric ? metric->with_unit(score) : value_text(score); }

TrialResult read_result(const Trial& trial, const Scoring& scoring) {
  const RecordedRun run = read_recorded_run(trial.folder);
  const auto last = run.last();
  if (!run.summary || !last) throw FileError(trial.folder + ": the run ended without a result");
  TrialResult result;
  result.score = scoring.metric ? last->metrics.value(scoring.metric->name)
                                : mean_loss(run.loss, scales_loss(amp_table().read("amp", trial.options.amp)));
  result.steps = run.summary->steps;
  result.reached = reached_by(*run.summary);
  result.goal = run.summary->goal;
  result.tested = run.summary->tested;
  result.bytes_per_step = run.summary->bytes_per_step;
  result.seconds = last->seconds;
  return result;
}

TrialRecord::TrialRecord(std::string folder, Settings plan, std::span<const Dimension> space)
    : folder_(std::move(folder)), plan_(std::move(plan)), space_(space) {}

bool TrialRecord::take_up(std::vector<Trial>& trials) const {
  namespace fs = std::filesystem;
  if (!path_exists(path())) {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename() == ".lock") continue;
      throw ConfigError(
          fmt::format("{}: it holds something else already; choose a new folder", named("train-dir", folder_)));
    }
    return false;
  }
  try {
    const Json json = Json::parse(read_text(path()));
    const Json& plan = json.at("plan");
    const auto refuse = [&](const std::string& name, const std::string& there, const std::string& here) {
      throw ConfigError(
          fmt::format("{}: the search there has {} {}, this one has {}; give the same command again, or "
                      "choose a new folder",
                      named("train-dir", folder_), name, there, here));
    };
    for (const Setting& setting : plan_) {
      const auto there = plan.value(setting.name, "(nothing)");
      if (there != setting.value) refuse(setting.name, there, setting.value);
    }
    for (const auto& [name, value] : plan.items()) {
      if (std::ranges::find(plan_, name, &Setting::name) == plan_.end()) refuse(name, value, "(nothing)");
    }
    const Json& found = json.at("trials");
    if (found.size() != trials.size()) throw FileError(path() + ": the number of trials is not the one in its plan");
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (!path_exists(trials[i].folder)) continue;  // somebody removed it: it is made again
      trials[i].scores = found[i].at("scores").get<std::vector<double>>();
      if (found[i].contains("reached")) {
        trials[i].reached = found[i]["reached"].get<std::uint64_t>();
      } else if (trials[i].options.until && path_exists(fs::path(trials[i].folder) / "summary.json")) {
        trials[i].reached = reached_by(read_summary(trials[i].folder));  // an earlier version did not record it
      }
      trials[i].diverged = found[i].at("diverged").get<bool>();
      trials[i].error = found[i].at("error").get<std::string>();
    }
  } catch (const nlohmann::json::exception& error) {
    throw FileError(fmt::format("{}: not the record of a search: {}", path(), error.what()));
  }
  return true;
}

void TrialRecord::write(std::span<const Trial> trials) const {
  Json json{{"plan", Json::object()}, {"trials", Json::array()}};
  for (const Setting& setting : plan_) json["plan"][setting.name] = setting.value;
  for (const Trial& trial : trials) json["trials"].push_back(to_json(space_, trial));
  write_file_atomic(path(), json.dump(2) + "\n");
}

}  // namespace sotto
