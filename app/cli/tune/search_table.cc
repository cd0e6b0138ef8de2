#include "app/cli/tune/search.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/cli/train/flags.h"

namespace sotto {
namespace {

// The results of the contender's trials, as far as they can be read: a trial that failed in a later round may have
// none.
std::vector<TrialResult> results_of(const Contender& contender, const Scoring& scoring) {
  std::vector<TrialResult> results;
  for (const Trial& trial : contender.trials()) {
    try {
      if (!trial.scores.empty()) results.push_back(read_result(trial, scoring));
    } catch (const FileError&) {
      if (trial.error.empty()) throw;
    }
  }
  return results;
}

// The command for the whole training that the contender's first trial has begun.
std::string command_of(const Contender& contender) {
  return train_command(read_settings(contender.trials().front().options));
}

}  // namespace

TextTable to_table(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring,
                   std::string_view goal) {
  const bool sends =
      std::ranges::any_of(order, [](const Contender& one) { return one.trials().front().options.ranks > 1; });
  const bool shows_goal = !scoring.metric || scoring.metric->name != goal;
  std::vector<std::string> head;
  for (const Dimension& dimension : space) head.push_back(dimension.name);
  if (space.empty()) head.emplace_back("seeds");
  head.push_back(scoring.label());
  if (shows_goal) head.push_back(fmt::format("test {}", goal));
  head.emplace_back("steps");
  if (sends) head.emplace_back("sent a rank and step");
  head.emplace_back("seconds");
  TextTable table(head);
  for (std::size_t column = 1; column < space.size(); ++column) table.left(column);
  for (const Contender& one : order) {
    std::vector<std::string> cells = one.trials().front().point;
    if (space.empty()) cells.push_back(std::to_string(one.trials().size()));
    const std::string_view failure = one.diverged() ? "diverged" : "failed";
    if (one.rounds() == 0) {
      if (!one.is_done() || one.is_sound()) continue;
      cells.emplace_back(failure);
      table.add(std::move(cells));
      continue;
    }
    const std::string score = one.score(one.rounds() - 1).text([&](double value) { return scoring.text(value); });
    cells.push_back(one.is_sound() ? score : fmt::format("{}, then {}", score, failure));
    if (const std::vector<TrialResult> results = results_of(one, scoring); !results.empty()) {
      const auto of = [&](auto figure, auto text) {
        const std::optional<Spread> found = spread_over(results, figure);
        return found ? found->text(text) : "-";
      };
      const auto whole = [](double value) { return fmt::format("{:.4g}", value); };
      if (shows_goal) {
        cells.push_back(of(&TrialResult::tested, [&](double value) { return results[0].goal.with_unit(value); }));
      }
      cells.push_back(of(&TrialResult::steps, whole));
      if (sends) cells.push_back(of(&TrialResult::bytes_per_step, bytes_text));
      cells.push_back(of(&TrialResult::seconds, [](double value) { return fmt::format("{:.1f}", value); }));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string to_json(std::span<const Contender> order, std::span<const Dimension> space) {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const Contender& one : order) {
    Json options = Json::object();
    for (std::size_t i = 0; i < space.size(); ++i) options[space[i].name] = one.trials().front().point[i];
    Json score, deviation;
    if (one.rounds() > 0) {
      const Spread found = one.score(one.rounds() - 1);
      score = found.mean;
      if (found.count > 1) deviation = found.deviation;
    }
    Json runs = Json::array();
    for (const Trial& trial : one.trials()) {
      runs.push_back({{"seed", trial.options.seed},
                      {"score", trial.scores.empty() ? Json() : Json(trial.scores.back())},
                      {"error", trial.error},
                      {"train_dir", trial.folder}});
    }
    json.push_back({{"options", options},
                    {"score", score},
                    {"deviation", deviation},
                    {"rounds", one.rounds()},
                    {"diverged", one.diverged()},
                    {"error", one.error()},
                    {"runs", std::move(runs)},
                    {"command", command_of(one)}});
  }
  return json.dump(2) + "\n";
}

std::string best_text(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring) {
  const Contender& best = order.front();
  std::string text = fmt::format("best: {}\n", command_of(best));
  if (best.trials().size() == 1) return text;
  std::vector<Spread> scores;
  std::vector<std::string> names;
  for (const Contender& one : order) {  // contenders of the same round, of which as many trials reached the target
    if (!one.is_sound() || one.rounds() != best.rounds() || one.lateness().first != best.lateness().first) continue;
    scores.push_back(one.score(one.rounds() - 1));
    names.push_back(text_of(space, one.trials().front().point));
  }
  const std::vector<bool> near = near_best(scores, scoring.rises());
  std::string others;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (near[i]) others += fmt::format("{}{}", others.empty() ? "" : "; ", names[i]);
  }
  return others.empty() ? text
                        : fmt::format("{}as good, as far as {} seeds tell: {}\n", text, best.trials().size(), others);
}

}  // namespace sotto
