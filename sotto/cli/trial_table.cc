#include "sotto/cli/trial_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "sotto/cli/train_command.h"
#include "sotto/core/error.h"

namespace sotto {

std::string command_of(const Trial& trial) { return train_command(read_settings(trial.options)); }

TextTable to_table(std::span<const Trial> trials, std::span<const std::size_t> order, std::span<const Dimension> space,
                   const Scoring& scoring, std::string_view goal) {
  const bool sends = std::ranges::any_of(trials, [](const Trial& trial) { return trial.options.ranks > 1; });
  const bool shows_goal = !scoring.metric || scoring.metric->name != goal;
  std::vector<std::string> head;
  for (const Dimension& dimension : space) head.push_back(dimension.name);
  head.push_back(scoring.label());
  if (shows_goal) head.push_back(fmt::format("test {}", goal));
  head.emplace_back("steps");
  if (sends) head.emplace_back("sent a rank and step");
  head.emplace_back("seconds");
  TextTable table(head);
  for (std::size_t column = 1; column < space.size(); ++column) table.left(column);
  for (const std::size_t index : order) {
    const Trial& trial = trials[index];
    std::vector<std::string> cells = trial.point;
    if (trial.scores.empty()) {
      if (trial.error.empty()) continue;  // it is not done
      cells.emplace_back(trial.diverged ? "diverged" : "failed");
      table.add(std::move(cells));
      continue;
    }
    std::optional<TrialResult> found;
    try {
      found = read_result(trial, scoring);
    } catch (const FileError&) {  // it failed in a later round
      if (trial.error.empty()) throw;
    }
    const std::string score = scoring.text(trial.scores.back());
    cells.push_back(trial.error.empty() ? score : score + (trial.diverged ? ", then diverged" : ", then failed"));
    if (found) {
      if (shows_goal) cells.push_back(found->tested);
      cells.push_back(std::to_string(found->steps));
      if (sends) cells.push_back(bytes_text(found->bytes_per_step));
      cells.push_back(fmt::format("{:.1f}", found->seconds));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string to_json(std::span<const Trial> trials, std::span<const std::size_t> order,
                    std::span<const Dimension> space) {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const std::size_t index : order) {
    const Trial& trial = trials[index];
    Json options = Json::object();
    for (std::size_t i = 0; i < space.size(); ++i) options[space[i].name] = trial.point[i];
    json.push_back({{"options", options},
                    {"score", trial.scores.empty() ? Json() : Json(trial.scores.back())},
                    {"rounds", trial.scores.size()},
                    {"diverged", trial.diverged},
                    {"error", trial.error},
                    {"train_dir", trial.folder},
                    {"command", command_of(trial)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace sotto
