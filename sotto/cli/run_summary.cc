#include "sotto/cli/run_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

RunSummary read_summary(const std::filesystem::path& train_dir) {
  const auto path = train_dir / "summary.json";
  const std::string text = read_text(path);
  try {
    const auto json = nlohmann::json::parse(text);
    RunSummary summary;
    summary.codec = json.at("codec").get<std::string>();
    summary.test_accuracy = json.at("test_accuracy").get<double>();
    summary.rank_accuracy = json.at("rank_accuracy").get<std::vector<double>>();
    summary.consensus_distance = json.at("consensus_distance").get<double>();
    summary.steps = json.at("steps").get<std::uint64_t>();
    summary.bytes_sent = mean(json.at("bytes_sent").get<std::vector<double>>());
    summary.bytes_per_step = mean(json.at("bytes_per_step").get<std::vector<double>>());
    summary.dense_bytes_per_step = json.at("dense_bytes_per_step").get<double>();
    summary.ms_per_step = json.at("ms_per_step").get<double>();
    summary.compute_ms = json.at("compute_ms").get<double>();
    summary.encode_ms = json.at("encode_ms").get<double>();
    summary.network_ms = json.at("network_ms").get<double>();
    summary.decode_ms = json.at("decode_ms").get<double>();
    summary.seconds = json.at("seconds").get<double>();
    return summary;
  } catch (const nlohmann::json::exception& error) {
    throw FileError(fmt::format("{}: not the summary of a run: {}", path.string(), error.what()));
  }
}

}  // namespace sotto
