#include "sotto/train/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sotto/core/file.h"
#include "sotto/core/version.h"

namespace sotto {

void write_summary(const std::filesystem::path& path, const Summary& s) {
  nlohmann::ordered_json json;
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
  json["until"] = nullptr;
  if (s.target) {
    json["until"] = {{"metric", s.target->metric.name}, {"value", s.target->value}, {"reached", s.reached.has_value()}};
    if (s.reached) {
      json["until"]["step"] = s.reached->step;
      json["until"]["seconds"] = s.reached->seconds;
      json["until"]["bytes_sent"] = s.reached->bytes_sent;
    }
  }
  json["ms_per_step"] = s.step.step_ms;
  json["median_ms_per_step"] = s.median_step_ms;
  json["compute_ms"] = s.step.compute_ms;
  json["encode_ms"] = s.step.encode_ms;
  json["network_ms"] = s.step.network_ms;
  json["decode_ms"] = s.step.decode_ms;
  json["wait_ms"] = s.step.wait_ms;
  json["queue_ms"] = s.step.queue_ms;
  const auto hidden = s.step.hidden();
  json["hidden"] = hidden ? nlohmann::ordered_json(*hidden) : nlohmann::ordered_json(nullptr);
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

}  // namespace sotto
