#include "app/train/record/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/version.h"

namespace sotto {

namespace {

using Json = nlohmann::ordered_json;

Json until_json(const Target& target, const std::optional<EvaluationRow>& reached) {
  Json until{{"metric", target.metric.name}, {"value", target.value}, {"reached", reached.has_value()}};
  if (reached) {
    until["step"] = reached->step;
    until["seconds"] = reached->seconds;
    until["bytes_sent"] = reached->bytes_sent;
  }
  return until;
}

void add_test(Json& json, const TestResult& tested, const std::optional<EvaluationRow>& best,
              const std::string& best_checkpoint) {
  const std::string_view goal = tested.goal.name;
  json["goal"] = goal;
  for (std::size_t i = 0; i < tested.metrics.kinds.size(); ++i) {
    json[fmt::format("test_{}", tested.metrics.kinds[i].name)] = tested.metrics.values[i];
  }
  json[fmt::format("rank_{}", goal)] = tested.rank_goals;
  json["consensus_distance"] = tested.consensus_distance;
  json["best"] = nullptr;
  if (!best) return;
  json["best"] = {{"step", best->step}, {goal, best->metrics.value(goal)}};
  if (!best_checkpoint.empty()) json["best"]["checkpoint"] = best_checkpoint;
}

// Calls change(json), and writes the file if that returns true. Does nothing if there is no file.
template <class F>
bool change_summary(const std::filesystem::path& path, F&& change) {
  if (!path_exists(path)) return false;
  try {
    Json json = Json::parse(read_text(path));
    if (!change(json)) return false;
    write_file_atomic(path, json.dump(2) + "\n");
    return true;
  } catch (const Json::exception& error) {
    throw FileError(fmt::format("{}: not the summary of a run: {}", path.string(), error.what()));
  }
}

}  // namespace

void write_summary(const std::filesystem::path& path, const Summary& s) {
  Json json;
  json["task"] = s.options.task;
  json["model"] = s.options.model;
  json["data"] = s.options.data.data;
  json["codec"] = s.options.codec;
  json["codec_warmup"] = s.options.codec_warmup.value_or("");
  json["method"] = s.method;
  json["optimiser"] = s.optimiser;
  json["lr"] = s.lr;
  json["aggregator"] = s.aggregator;
  json["remark"] = s.remark;
  json["algorithm"] = s.options.algorithm;
  json["topology"] = s.options.topology.value_or("");
  json["mixing"] = s.options.mixing.value_or("");
  json["backend"] = s.options.backend;
  json["ranks"] = s.bytes_sent.size();
  json["seed"] = s.options.seed;
  json["link"] = s.options.link.value_or("");
  json["first_step"] = s.first_step;
  json["steps"] = s.steps;
  if (!s.rank_steps.empty()) json["rank_steps"] = s.rank_steps;
  if (s.loss_scale) {
    json["loss_scale"] = *s.loss_scale;
    json["skipped_steps"] = s.skipped_steps;
  }
  json["interrupted_by_signal"] = s.signal;
  json["diverged"] = s.diverged;
  add_test(json, s.tested, s.best, s.best_checkpoint);
  json["until"] = s.target ? until_json(*s.target, s.reached) : Json();
  json["ms_per_step"] = s.step.step_ms;
  json["median_ms_per_step"] = s.median_step_ms;
  json["compute_ms"] = s.step.compute_ms;
  json["encode_ms"] = s.step.encode_ms;
  json["network_ms"] = s.step.network_ms;
  json["decode_ms"] = s.step.decode_ms;
  json["wait_ms"] = s.step.wait_ms;
  json["queue_ms"] = s.step.queue_ms;
  const auto hidden = s.step.hidden();
  json["hidden"] = hidden ? Json(*hidden) : Json();
  json["bytes_sent"] = s.bytes_sent;
  json["bytes_per_step"] = s.bytes_per_step;
  if (!s.exchanges.empty()) json["exchanges"] = s.exchanges;
  json["dense_bytes_per_step"] = s.dense_bytes_per_step;
  json["parameters"] = s.parameters;
  json["parameters_sha256"] = s.parameters_sha256;
  json["seconds"] = s.seconds;
  json["version"] = version;
  write_file_atomic(path, json.dump(2) + "\n");
}

bool note_test(const std::filesystem::path& path, std::uint64_t steps, const TestResult& tested,
               const std::optional<EvaluationRow>& best, const std::string& best_checkpoint) {
  return change_summary(path, [&](Json& json) {
    if (json.at("interrupted_by_signal") == 0 || json.at("steps") != steps) return false;
    if (!json.at(fmt::format("test_{}", tested.goal.name)).is_null()) return false;
    json["interrupted_by_signal"] = 0;
    add_test(json, tested, best, best_checkpoint);
    return true;
  });
}

void note_target(const std::filesystem::path& path, const Target& target, const EvaluationRow& reached) {
  change_summary(path, [&](Json& json) {
    const Json found = std::exchange(json["until"], until_json(target, reached));
    const auto is_same = [&](const char* key) { return found.is_object() && found.at(key) == json["until"].at(key); };
    return !(is_same("metric") && is_same("value"));
  });
}

}  // namespace sotto
