// What a run writes into summary.json at its end.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/train/run_log.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/version.h"

namespace sotto {
namespace {

using Json = nlohmann::ordered_json;

Json until_json(const Evaluations& evaluations) {
  if (!evaluations.target()) return nullptr;
  const Target& target = *evaluations.target();
  const auto& reached = evaluations.reached();
  Json until{{"metric", target.metric.name}, {"value", target.value}, {"reached", reached.has_value()}};
  if (reached) {
    until["step"] = reached->step;
    until["seconds"] = reached->seconds;
    until["bytes_sent"] = reached->bytes_sent;
  }
  return until;
}

void add_test(Json& json, const TestResult& tested, const Evaluations& evaluations, const RunFolder& folder) {
  const std::string_view goal = tested.goal.name;
  json["goal"] = goal;
  for (std::size_t i = 0; i < tested.metrics.kinds.size(); ++i) {
    json[fmt::format("test_{}", tested.metrics.kinds[i].name)] = tested.metrics.values[i];
  }
  json[fmt::format("rank_{}", goal)] = tested.rank_goals;
  json["consensus_distance"] = tested.consensus_distance;
  json["best"] = nullptr;
  const auto& best = evaluations.best();
  if (!best) return;
  json["best"] = {{"step", best->step}, {goal, best->metrics.value(goal)}};
  const std::string checkpoint = folder.name_of(best->step);
  if (!checkpoint.empty()) json["best"]["checkpoint"] = checkpoint;
}

// Calls change(json) on the summary, and writes the file if that returns true. Returns whether it wrote the file. Does
// nothing if there is no file.
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

// Times are rank 0's means over the steps since the last start, except the median. Bytes are the payload that each rank
// has handed to the transport since the last start.
void RunLog::summarise(const TrainResult& result, const std::vector<std::uint64_t>& rank_steps, std::uint64_t first,
                       const TestResult& tested, bool diverged) {
  Communicator& communicator = session_.communicator();
  const Algorithm& algorithm = session_.algorithm();
  Recorder::Figures figures = recorder_->means();
  if (session_.own_speed()) {  // traffic belongs to no step, and continues after the last row
    const std::uint64_t made = rank_steps[static_cast<std::size_t>(session_.rank())] - first;
    figures.bytes_sent = static_cast<double>(algorithm.status().traffic.bytes_sent) / static_cast<double>(made);
  }
  const OwnSpeed* apart = algorithm.own_speed();
  const LossScale* scale = session_.replica().loss_scale();
  const std::array<std::uint64_t, 4> mine = {traffic().bytes_sent, static_cast<std::uint64_t>(figures.bytes_sent),
                                             apart ? apart->exchange_count() : 0, scale ? scale->skipped() : 0};
  const auto all = session_.gather(mine);
  double median_ms = recorder_->median_step_ms();
  if (!session_.followers().empty()) {  // followers have no rows
    communicator.broadcast(std::as_writable_bytes(std::span(&figures, 1)), session_.first_trainer());
    communicator.broadcast(std::as_writable_bytes(std::span(&median_ms, 1)), session_.first_trainer());
  }
  if (session_.rank() != 0) return;

  std::vector<std::uint64_t> bytes_sent, bytes_per_step, exchanges;
  std::uint64_t all_skipped = 0;  // void steps: of all ranks if they have their own models, otherwise of rank 0
  for (const auto& [sent, per_step, exchanged, skipped] : all) {
    bytes_sent.push_back(sent);
    bytes_per_step.push_back(per_step);
    exchanges.push_back(exchanged);
    if (bytes_sent.size() == 1 || !session_.replicated()) all_skipped += skipped;
  }
  const RunFolder& folder = session_.folder();
  const TrainOptions& options = session_.options();
  const ChosenOptimiser& optimiser = session_.choices().optimiser;
  const Layout& layout = session_.task().layout();
  Json json;
  json["task"] = options.task;
  json["model"] = options.model;
  json["data"] = options.data.data;
  json["codec"] = options.codec;
  json["codec_warmup"] = options.codec_warmup.value_or("");
  json["method"] = session_.method();
  json["optimiser"] = optimiser.spec.text();
  json["lr"] = optimiser.lr;  // before the schedule is applied
  json["aggregator"] = algorithm.status().aggregator;
  json["remark"] = remark_;
  json["algorithm"] = options.algorithm;
  json["topology"] = options.topology.value_or("");
  json["mixing"] = options.mixing.value_or("");
  json["backend"] = options.backend;
  json["ranks"] = session_.ranks();
  json["seed"] = options.seed;
  json["link"] = options.link.value_or("");
  json["first_step"] = folder.start_step();
  json["steps"] = result.steps;
  if (apart) json["rank_steps"] = rank_steps;
  if (scale) {
    json["loss_scale"] = scale->value();
    json["skipped_steps"] = all_skipped;
  }
  json["interrupted_by_signal"] = result.signal;
  json["diverged"] = diverged;
  add_test(json, tested, evaluations_, folder);
  json["until"] = until_json(evaluations_);
  json["ms_per_step"] = figures.step_ms;
  json["median_ms_per_step"] = median_ms;
  json["compute_ms"] = figures.compute_ms;
  json["encode_ms"] = figures.encode_ms;
  json["network_ms"] = figures.network_ms;
  json["decode_ms"] = figures.decode_ms;
  json["wait_ms"] = figures.wait_ms;
  json["queue_ms"] = figures.queue_ms;
  const auto hidden = figures.hidden();
  json["hidden"] = hidden ? Json(*hidden) : Json();
  json["bytes_sent"] = bytes_sent;
  json["bytes_per_step"] = bytes_per_step;
  if (apart) json["exchanges"] = exchanges;
  json["dense_bytes_per_step"] = communicator.all_reduce_bytes(layout.size(), DType::f32);
  json["parameters"] = layout.numel();
  json["parameters_sha256"] = folder.parameters_sha256();
  json["seconds"] = session_.seconds();
  json["version"] = version;
  write_file_atomic(folder.path() / "summary.json", json.dump(2) + "\n");
}

void RunLog::note_untrained(std::uint64_t done, const TestResult& tested) {
  const RunFolder& folder = session_.folder();
  const std::filesystem::path path = folder.path() / "summary.json";
  std::string noted;
  if (session_.rank() == 0) {
    const bool is_test_noted = change_summary(path, [&](Json& json) {
      if (json.at("interrupted_by_signal") == 0 || json.at("steps") != done) return false;
      if (!json.at(fmt::format("test_{}", tested.goal.name)).is_null()) return false;
      json["interrupted_by_signal"] = 0;
      add_test(json, tested, evaluations_, folder);
      return true;
    });
    if (is_test_noted) noted = " got the test, and else";
    if (evaluations_.reached()) {
      change_summary(path, [&](Json& json) {
        const Json found = std::exchange(json["until"], until_json(evaluations_));
        const auto is_same = [&](const char* key) {
          return found.is_object() && found.at(key) == json["until"].at(key);
        };
        return !(is_same("metric") && is_same("value"));
      });
    }
  }
  if (evaluations_.reached()) {
    return say(
        fmt::format("nothing was left to do: {}; summary.json says so, and else stays as it was", reached_text()));
  }
  const TrainOptions& options = session_.options();
  const Spelling spelling = session_.choices().spelling;
  say(fmt::format("nothing was left to do: the run ends after {} steps, as {} and {} say{}", session_.plan().steps,
                  spelled(named("epochs", std::to_string(options.epochs)), spelling),
                  spelled(named("max-steps", format_optional(options.max_steps)), spelling),
                  path_exists(path) ? fmt::format("; summary.json{} stays as it was", noted) : ""));
}

}  // namespace sotto
