#include "app/train/folder/other_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "app/train/folder/checkpoint.h"
#include "app/train/folder/safetensors.h"
#include "app/train/identity.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// Reads the mean of vectors of floats, and what else the first part has.
class MeanOfParts final : public StateVisitor {
 public:
  explicit MeanOfParts(std::deque<StateReader>& parts) : parts_(parts) {}

  // The sum is one of doubles, so that the mean of equal floats is that float.
  void visit(std::string_view name, std::vector<float>& values) override {
    parts_.front().visit(name, values);
    std::vector<double> sum(values.begin(), values.end());
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      parts_[i].visit(name, values);
      std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    }
    give(sum, values);
  }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { visit_first(name, bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { visit_first(name, value); }

  void get(std::string_view name, std::span<float> values) {
    std::vector<double> sum(values.size());
    for (StateReader& part : parts_) {
      part.get(name, values);
      std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    }
    give(sum, values);
  }

 private:
  void give(std::span<const double> sum, std::span<float> mean) const {
    const auto count = static_cast<double>(parts_.size());
    std::ranges::transform(sum, mean.begin(), [&](double all) { return static_cast<float>(all / count); });
  }
  template <class T>
  void visit_first(std::string_view name, T& value) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) part->visit(name, value);
  }

  std::deque<StateReader>& parts_;
};

void require_other_ranks(const Choices& choices, const std::string& folder, const std::string& before,
                         const std::string& ranks, const Manifest& manifest) {
  const std::string refusal =
      fmt::format("{}: it was written with ranks {}, this run has {}", named("resume", folder), before, ranks);
  if (manifest.course.empty()) {
    throw ConfigError(
        fmt::format("{}, and an older version of sotto wrote it, which did not note what was read; use {}", refusal,
                    named("ranks", before)));
  }
  const bool has_nodes = choices.options.node_size > 1;
  if (choices.algorithm.entry->traits.other_ranks && !has_nodes) return;
  throw ConfigError(fmt::format(
      "{}, and `{}`{} cannot continue with another number; use the same, or start a run of its own from the "
      "mean model with {}",
      refusal, choices.algorithm.entry->name, has_nodes ? " between nodes" : "",
      named("weights", (std::filesystem::path(folder) / checkpoint::model_file).string())));
}

}  // namespace

void read_other_ranks(const std::filesystem::path& folder, int written_by, int rank, bool own_parameters,
                      Replica& replica, Algorithm& algorithm, RunTotals& totals) {
  std::deque<StateReader> parts;  // by rank
  for (int r = 0; r < written_by; ++r) parts.emplace_back(folder / checkpoint::rank_file(r));
  Task& task = replica.task();
  MeanOfParts mean(parts);
  mean.get("buffers", task.buffers());
  if (own_parameters) {
    mean.get("parameters", task.parameters());
  } else {
    SafetensorsReader(folder / checkpoint::model_file).read(task.layout(), task.parameters());
  }
  replica.visit_state(mean);

  Tally counted(task.trained().size());
  totals = {};
  for (StateReader& part : parts) {
    RunTotals own;
    own.visit_state(part);
    totals.bytes_sent += own.bytes_sent;
    totals.seconds = std::max(totals.seconds, own.seconds);
    replica.visit_trained(part);
    std::ranges::transform(counted, task.trained(), counted.begin(), std::plus<>());
  }
  task.trained() = counted;
  if (rank > 0) {
    totals.bytes_sent = 0;
    std::ranges::fill(task.trained(), 0.0);
  }

  std::vector<FormerRank> each;
  for (StateReader& part : parts) {
    each.push_back({static_cast<int>(each.size()), written_by, &part});
  }
  algorithm.elastic()->visit_shared(mean);
  algorithm.elastic()->take_over(each);
  for (const StateReader& part : parts) part.finish();
}

bool require_resumable(const Choices& choices, const std::string& folder, const Manifest& manifest,
                       checkpoint::Metadata identity, bool changes) {
  const auto found = manifest.identity.find("ranks");
  const std::string before = found == manifest.identity.end() ? "(nothing)" : found->second;
  const std::string ranks = identity.at("ranks");
  const bool same = before == ranks;
  identity.erase("codec");
  if (!same) {
    if (!changes) require_other_ranks(choices, folder, before, ranks, manifest);
    for (const char* may_change : {"ranks", "batch-size", "accumulate"}) identity.erase(may_change);
  }
  require_identity(folder, manifest.identity, identity);
  return same;
}

}  // namespace sotto
