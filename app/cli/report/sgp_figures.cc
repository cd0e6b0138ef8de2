#include "app/cli/report/report.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "app/cli/flags.h"

namespace sotto {
namespace {

// The error in per cent, against steps and seconds. Curve::bytes holds epochs here.
Curve error_curve(const RecordedRun& run, Split split) {
  refuse(!metric_table(run.task->metrics).find("accuracy"),
         "{}: {}: its task {} has no accuracy, and so no error in per cent", named("like", "sgp"), run.name,
         run.task->name);
  Curve curve;
  for (const EvaluationRow& row : run.evaluations) {
    if (row.split != split) continue;
    curve.add(static_cast<double>(row.step), row.seconds, row.epoch, 100 * (1 - row.metrics.value("accuracy")));
  }
  return curve;
}

// Names for a figure's legend: "push_sum, 4 ranks". If these do not tell groups apart, uses the names on the page.
std::vector<std::string> short_names(const Report& report, std::span<const RunGroup> groups, bool with_ranks) {
  std::vector<std::string> names;
  for (const RunGroup& group : groups) {
    const TrainOptions& options = report.runs[group.runs.front()].options;
    std::string name = options.algorithm;
    if (options.codec != "none") name += ", " + options.codec;
    if (with_ranks) name += fmt::format(", {} rank{}", options.ranks, options.ranks == 1 ? "" : "s");
    names.push_back(std::move(name));
  }
  if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
  for (std::size_t g = 0; g < groups.size(); ++g) names[g] = groups[g].name;
  return names;
}

// A line for each group of runs that differ in nothing but their seed.
Plot error_plot(const Report& report, Split split, std::string x_label, std::vector<double> Curve::*across) {
  Plot plot{
      split == Split::test ? "Validation error" : "Training error", std::move(x_label), "error (%)", false, false, {}};
  const auto legend = short_names(report, report.groups, true);
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    std::vector<Curve> curves;
    for (const std::size_t run : report.groups[g].runs) curves.push_back(error_curve(report.runs[run], split));
    const Curve mean = mean_of(curves);
    PlotSeries series{legend[g], {}};
    for (std::size_t i = 0; i < mean.size(); ++i) series.points.push_back({(mean.*across)[i], mean.mean[i], ""});
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// A line for each group of runs that differ in nothing but their seed and the number of ranks.
std::vector<PlotSeries> times_by_ranks(const Report& report) {
  std::vector<Settings> settings = report.settings;
  std::vector<std::string> names;
  for (Settings& of : settings) std::erase_if(of, [](const Setting& one) { return one.name == "ranks"; });
  for (const RecordedRun& run : report.runs) names.push_back(run.name);
  std::vector<PlotSeries> all;
  const std::vector<RunGroup> groups = group_by_seed(settings, names);
  const auto legend = short_names(report, groups, false);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::map<double, std::vector<double>> seconds;
    for (const std::size_t r : groups[g].runs) {
      const std::span<const RankTimes> ranks = report.runs[r].ranks;
      seconds[static_cast<double>(ranks.size())].push_back(mean_of(ranks, &Recorder::Figures::step_ms) / 1e3);
    }
    PlotSeries series{legend[g], {}};
    for (const auto& [ranks, times] : seconds) {
      double mean = 0;
      for (const double time : times) mean += time / static_cast<double>(times.size());
      series.points.push_back({ranks, mean, ""});
    }
    all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

std::vector<Plot> sgp_plots(const Report& report) {
  std::vector<Plot> plots{error_plot(report, Split::train, "epochs", &Curve::bytes),
                          error_plot(report, Split::test, "epochs", &Curve::bytes),
                          error_plot(report, Split::test, "iterations", &Curve::step),
                          error_plot(report, Split::test, "time (s)", &Curve::seconds)};
  Plot times{"Time per iteration", "ranks", "seconds", false, false, times_by_ranks(report)};
  Plot gain{"Speed-up", "ranks", "examples a second, as a multiple of the fewest ranks'", false, false, times.series};
  for (PlotSeries& series : gain.series) {
    const PlotPoint first = series.points.front();
    for (PlotPoint& point : series.points) point.y = point.x * first.y / (first.x * point.y);
  }
  plots.push_back(std::move(times));
  plots.push_back(std::move(gain));
  return plots;
}

}  // namespace sotto
