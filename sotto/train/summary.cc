#include "sotto/train/summary.h"

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
  json["goal"] = s.tested.goal.name;
  for (std::size_t i = 0; i < s.tested.metrics.kinds.size(); ++i) {
    json[fmt::format("test_{}", s.tested.metrics.kinds[i].name)] = s.tested.metrics.values[i];
  }
  json[fmt::format("rank_{}", s.tested.goal.name)] = s.tested.rank_goals;
  json["consensus_distance"] = s.tested.consensus_distance;
  json["best"] = nullptr;
  if (s.best) {
    json["best"] = {{"step", s.best->step}, {s.tested.goal.name, s.best->metrics.value(s.tested.goal.name)}};
    if (!s.best_checkpoint.empty()) json["best"]["checkpoint"] = s.best_checkpoint;
  }
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

void note_target(const std::filesystem::path& path, const Target& target, const EvaluationRow& reached) {
  if (!path_exists(path)) return;
  try {
    Json json = Json::parse(read_text(path));
    const Json found = std::exchange(json["until"], until_json(target, reached));
    const auto is_same = [&](const char* key) { return found.is_object() && found.at(key) == json["until"].at(key); };
    if (is_same("metric") && is_same("value")) return;
    write_file_atomic(path, json.dump(2) + "\n");
  } catch (const Json::exception& error) {
    throw FileError(fmt::format("{}: not the summary of a run: {}", path.string(), error.what()));
  }
}

}  // namespace sotto
