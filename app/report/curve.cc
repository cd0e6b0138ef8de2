#include "app/report/curve.h"

#include <fmt/format.h>

#include <cmath>

#include "app/train/record/membership_csv.h"

namespace sotto {
namespace {

// Reads the groups that made the present state of the run. A later group may have made steps of an earlier one again.
void read_groups(const std::filesystem::path& train_dir, StepRows& found) {
  found.groups[0] = std::numeric_limits<std::uint64_t>::max();
  if (!path_exists(train_dir / "membership.csv")) return;
  for (const GenerationRow& row : read_membership(train_dir)) {
    found.groups.erase(found.groups.lower_bound(row.step), found.groups.end());
    found.groups[row.step] = row.ids.size();
    found.newcomers.erase(found.newcomers.lower_bound(row.step), found.newcomers.end());
    for (std::size_t rank = 0; rank < row.ids.size() && !row.starts; ++rank) {
      if (std::ranges::binary_search(row.newcomers, row.ids[rank])) found.newcomers[row.step].insert(rank);
    }
  }
}

void copy_point(const Curve& from, std::size_t i, Curve& to) {
  to.add(from.step[i], from.seconds[i], from.bytes[i], from.mean[i]);
  to.low.back() = from.low[i];
  to.high.back() = from.high[i];
}

}  // namespace

StepRows read_step_rows(const std::filesystem::path& path) {
  StepRows found;
  read_groups(path.parent_path(), found);
  std::map<std::uint64_t, std::uint64_t> last_step;  // of each rank
  step_table().read_file(path, [&](std::string_view line, std::size_t /*number*/) {
    const StepRow row = step_table().row_of(line);
    const auto [last, is_first] = last_step.try_emplace(row.rank, row.step);
    if (!is_first && row.step <= last->second) {
      throw FileError(fmt::format("rank {} makes step {} after step {}", row.rank, row.step, last->second));
    }
    last->second = row.step;
    found.rows.push_back({row, std::prev(found.groups.upper_bound(row.step))->first});
  });
  return found;
}

void Curve::add(double steps, double at_seconds, double at_bytes, double value) {
  step.push_back(steps);
  seconds.push_back(at_seconds);
  bytes.push_back(at_bytes);
  for (auto* values : {&mean, &low, &high}) values->push_back(value);
}

Curve curve_of_steps(std::span<const StepFigures> rows, double StepFigures::*column) {
  struct Sum {
    double value = 0, seconds = 0, bytes = 0;
    double ranks = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Sum> steps;         // by the group, and the step
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> seconds{};  // by the group, and the rank
  for (const StepFigures& row : rows) {
    Sum& sum = steps[{row.group, row.step}];
    sum.value += row.*column;
    sum.seconds += seconds[{row.group, row.rank}] += row.step_ms / 1e3;
    sum.bytes += static_cast<double>(row.bytes_sent);
    ++sum.ranks;
  }
  Curve curve;
  double bytes = 0, begun = 0, latest = 0;  // `begun`: when the present group began
  std::uint64_t group = 0;
  for (const auto& [place, sum] : steps) {
    if (std::exchange(group, place.first) != place.first) begun = latest;
    bytes += sum.bytes;
    latest = std::max(latest, begun + sum.seconds / sum.ranks);  // slow ranks may have fewer steps than fast ones
    curve.add(static_cast<double>(place.second) + 1, latest, bytes, sum.value / sum.ranks);
  }
  return curve;
}

Curve curve_of_evaluations(std::span<const EvaluationRow> rows, std::string_view metric, Split split) {
  Curve curve;
  for (const EvaluationRow& row : rows) {
    if (row.split != split) continue;
    curve.add(static_cast<double>(row.step), row.seconds, static_cast<double>(row.bytes_sent),
              row.metrics.value(metric));
  }
  return curve;
}

Curve mean_of(std::span<const Curve> curves) {
  Curve mean;
  if (curves.empty()) return mean;
  std::vector<std::size_t> at(curves.size(), 0);
  for (std::size_t i = 0; i < curves[0].size(); ++i) {
    const double step = curves[0].step[i];
    bool all = true;
    for (std::size_t c = 0; c < curves.size(); ++c) {
      while (at[c] < curves[c].size() && curves[c].step[at[c]] < step) ++at[c];
      all = all && at[c] < curves[c].size() && curves[c].step[at[c]] == step;
    }
    if (!all) continue;
    mean.add(step, 0, 0, 0);
    mean.low.back() = std::numeric_limits<double>::infinity();
    mean.high.back() = -std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < curves.size(); ++c) {
      mean.seconds.back() += curves[c].seconds[at[c]];
      mean.bytes.back() += curves[c].bytes[at[c]];
      mean.mean.back() += curves[c].mean[at[c]];
      mean.low.back() = std::min(mean.low.back(), curves[c].low[at[c]]);
      mean.high.back() = std::max(mean.high.back(), curves[c].high[at[c]]);
    }
    for (double* sum : {&mean.seconds.back(), &mean.bytes.back(), &mean.mean.back()}) {
      *sum /= static_cast<double>(curves.size());
    }
  }
  return mean;
}

std::size_t buckets_for(std::span<const std::size_t> sizes, std::size_t budget, std::size_t least, std::size_t most) {
  const auto points = [&](std::size_t buckets) {
    std::size_t sum = 0;
    for (const std::size_t size : sizes) sum += std::min(size, 2 * buckets + 2);
    return sum;
  };
  while (most > least && points(most) > budget) most -= 1;
  return most;
}

Curve downsampled(const Curve& curve, std::size_t buckets) {
  const std::size_t size = curve.size();
  if (size <= 2 * buckets + 2) return curve;
  Curve kept;
  copy_point(curve, 0, kept);
  std::vector<std::size_t> chosen;
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t begin = 1 + b * (size - 2) / buckets, end = 1 + (b + 1) * (size - 2) / buckets;
    std::optional<std::size_t> lowest, highest, gap;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(curve.mean[i])) {
        gap = i;
        continue;
      }
      if (!lowest || curve.low[i] < curve.low[*lowest]) lowest = i;
      if (!highest || curve.high[i] > curve.high[*highest]) highest = i;
    }
    chosen.clear();
    for (const auto& one : {lowest, highest, gap}) {
      if (one) chosen.push_back(*one);
    }
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const std::size_t i : chosen) copy_point(curve, i, kept);
  }
  copy_point(curve, size - 1, kept);
  return kept;
}

}  // namespace sotto
