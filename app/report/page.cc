#include "app/report/page.h"

#include <fmt/format.h>

#include <cmath>

#include "app/report/html.h"

namespace sotto {
namespace {

// "6 runs of logreg on digits"
std::string title_of(const Report& report) {
  std::set<std::string> models, data;
  for (const RecordedRun& run : report.runs) {
    models.insert(run.options.model);
    data.insert(run.options.data.data);
  }
  std::string title = fmt::format("{} run{}", report.runs.size(), report.runs.size() == 1 ? "" : "s");
  if (models.size() == 1) title += " of " + *models.begin();
  if (data.size() == 1) title += " on " + *data.begin();
  return title;
}

constexpr std::size_t most_points = 16'000;  // on the whole page: about 0.6 MB
constexpr std::size_t most_buckets = 400, least_buckets = 25;

struct Line {
  std::size_t group = 0;
  std::string name;  // within its plot and group: "test", "train"
  Curve curve;
};
struct CurvePlot {
  std::string id, title;
  std::vector<Line> lines;
};

// A line for each group: the mean over its runs. `curve_of` gives the curve of one run.
template <class F>
void add_lines(const Report& report, std::string_view name, F&& curve_of, CurvePlot& plot) {
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    std::vector<Curve> curves;
    for (const std::size_t run : report.groups[g].runs) curves.push_back(curve_of(report.runs[run]));
    Line line{g, std::string(name), mean_of(curves)};
    if (line.curve.size() > 0) plot.lines.push_back(std::move(line));
  }
}

std::vector<CurvePlot> plots_of(const Report& report) {
  std::vector<CurvePlot> plots;
  CurvePlot loss{"loss-of-steps", "Training loss of each step", {}};
  add_lines(
      report, "train", [](const RecordedRun& run) { return run.loss; }, loss);
  plots.push_back(std::move(loss));
  for (const auto& entry : metrics_of(report)) {
    const Metric& metric = entry.first;
    CurvePlot plot{fmt::format("metric-{}", metric.name),
                   fmt::format("{} of the evaluations ({} is better)", metric.name, metric.rises ? "more" : "less"),
                   {}};
    for (const Split split : {Split::test, Split::train}) {
      const auto curve_of = [&](const RecordedRun& run) {
        return has_metric(run, metric) ? curve_of_evaluations(run.evaluations, metric.name, split) : Curve();
      };
      add_lines(report, split == Split::test ? "test" : "train", curve_of, plot);
    }
    std::erase_if(plot.lines, [](const Line& line) {  // a metric of test data alone
      return std::ranges::none_of(line.curve.mean, [](double value) { return std::isfinite(value); });
    });
    if (!plot.lines.empty()) plots.push_back(std::move(plot));
  }
  CurvePlot consensus{"consensus", "Distance of the ranks' models at evaluations", {}};
  add_lines(
      report, "distance", [](const RecordedRun& run) { return run.consensus; }, consensus);
  if (!consensus.lines.empty()) plots.push_back(std::move(consensus));
  CurvePlot rate{"learning-rate", "Learning rate", {}};
  add_lines(
      report, "lr", [](const RecordedRun& run) { return run.rate; }, rate);
  plots.push_back(std::move(rate));
  return plots;
}

Json json_of(const Line& line, std::size_t buckets) {
  const Curve curve = downsampled(line.curve, buckets);
  Json json{{"group", line.group},
            {"name", line.name},
            {"points", line.curve.size()},
            {"steps", numbers(curve.step)},
            {"seconds", numbers(curve.seconds)},
            {"bytes", numbers(curve.bytes)},
            {"mean", numbers(curve.mean)}};
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (!std::ranges::equal(curve.low, curve.high, same)) {
    json["low"] = numbers(curve.low);
    json["high"] = numbers(curve.high);
  }
  return json;
}

Json json_of_plots(const Report& report) {
  const std::vector<CurvePlot> plots = plots_of(report);
  std::vector<std::size_t> sizes;
  for (const CurvePlot& plot : plots) {
    for (const Line& line : plot.lines) sizes.push_back(line.curve.size());
  }
  const std::size_t buckets = buckets_for(sizes, most_points, least_buckets, most_buckets);
  auto json = Json::array();
  for (const CurvePlot& plot : plots) {
    auto lines = Json::array();
    for (const Line& line : plot.lines) lines.push_back(json_of(line, buckets));
    json.push_back({{"id", plot.id}, {"title", plot.title}, {"lines", std::move(lines)}});
  }
  return json;
}

// Mean, least and greatest of the runs of a group that reached the target.
Json spread(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  const auto [least, most] = std::ranges::minmax(values);
  return {number(sum / static_cast<double>(values.size())), number(least), number(most)};
}

Json json_of_target(const Report& report) {
  auto rows = Json::array();
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    std::vector<double> steps, seconds, bytes;
    if (!has_metric(report.runs[report.groups[g].runs[0]], report.target->metric)) continue;  // of another task
    for (const std::size_t run : report.groups[g].runs) {
      const auto row = report.runs[run].reached(*report.target);
      if (!row) continue;
      steps.push_back(static_cast<double>(row->step));
      seconds.push_back(row->seconds);
      bytes.push_back(static_cast<double>(row->bytes_sent));
    }
    Json json{{"group", g}, {"runs", report.groups[g].runs.size()}, {"reached", steps.size()}};
    if (!steps.empty()) {
      json["seconds"] = spread(seconds);
      json["bytes"] = spread(bytes);
      json["steps"] = spread(steps);
    }
    rows.push_back(std::move(json));
  }
  return {{"text", report.target->text()}, {"rows", std::move(rows)}};
}

// For each rank, the means over the runs of a group.
Json json_of_times(const Report& report) {
  auto rows = Json::array();
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    std::map<std::uint64_t, std::vector<RankTimes>> ranks;
    for (const std::size_t run : report.groups[g].runs) {
      for (const RankTimes& rank : report.runs[run].ranks) ranks[rank.rank].push_back(rank);
    }
    for (const auto& entry : ranks) {
      const std::vector<RankTimes>& of = entry.second;
      double hidden = 0;
      for (const RankTimes& rank : of) {
        hidden += rank.means.hidden().value_or(std::nan("")) / static_cast<double>(of.size());
      }
      const auto mean = [&](double Recorder::Figures::*figure) { return number(mean_of(of, figure)); };
      rows.push_back({{"group", g},
                      {"rank", entry.first},
                      {"step", mean(&Recorder::Figures::step_ms)},
                      {"compute", mean(&Recorder::Figures::compute_ms)},
                      {"wait", mean(&Recorder::Figures::wait_ms)},
                      {"data", mean(&Recorder::Figures::data_ms)},
                      {"encode", mean(&Recorder::Figures::encode_ms)},
                      {"network", mean(&Recorder::Figures::network_ms)},
                      {"decode", mean(&Recorder::Figures::decode_ms)},
                      {"hidden", number(hidden)}});
    }
  }
  return rows;
}

// The bytes of each tensor in the messages of a group: means over the measured steps of its runs, which have the same
// tensors.
MeasuredTensors tensors_of(const Report& report, const RunGroup& group) {
  MeasuredTensors all;
  for (const std::size_t run : group.runs) {
    const MeasuredTensors& one = report.runs[run].tensors;
    if (one.rows.empty() || (!all.rows.empty() && one.rows.size() != all.rows.size())) continue;
    if (all.rows.empty()) {
      all = one;
      continue;
    }
    const auto before = static_cast<double>(all.steps), more = static_cast<double>(one.steps);
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      all.rows[i].bytes = (before * all.rows[i].bytes + more * one.rows[i].bytes) / (before + more);
    }
    all.steps += one.steps;
  }
  return all;
}

Json json_of_tensors(const Report& report) {
  auto groups = Json::array();
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    const MeasuredTensors measured = tensors_of(report, report.groups[g]);
    if (measured.rows.empty()) continue;
    auto rows = Json::array();
    for (const TensorBytes& row : measured.rows) {
      rows.push_back({{"name", row.tensor}, {"elements", row.elements}, {"bytes", number(row.bytes)}});
    }
    groups.push_back({{"group", g}, {"steps", measured.steps}, {"rows", std::move(rows)}});
  }
  return groups;
}

}  // namespace

std::size_t Report::group_of(std::size_t run) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::find(groups[g].runs, run) != groups[g].runs.end()) return g;
  }
  throw std::logic_error("a run without a group");
}

std::vector<std::pair<Metric, bool>> metrics_of(const Report& report) {
  std::vector<std::pair<Metric, bool>> found;
  for (const RecordedRun& run : report.runs) {
    for (const Metric& metric : run.task->metrics) {
      const auto same = [&](const auto& other) { return other.first.name == metric.name; };
      if (std::ranges::none_of(found, same)) found.emplace_back(metric, metric.name == run.task->goal);
    }
  }
  return found;
}

std::string to_page(const Report& report) {
  PageFrame page{
      .title = title_of(report), .state = report.state, .goes_on = report.goes_on, .data = page_data(report)};
  page.add("differences", "How the runs differ", differences_html(report));
  page.add("results", "Results", runs_html(report));
  if (report.target) page.add("target", "Until " + report.target->text(), "<div id=\"target-bars\"></div>\n");
  page.add("curves", "Curves", PageFrame::plots);
  page.add("time", "Where the time of a step goes", "<div id=\"times\"></div>\n");
  // The script of a page that is served fills in later values, but only in sections that are on the page.
  const auto measured = [&](const RecordedRun& run) {
    return !run.tensors.rows.empty() || (report.goes_on && run.options.measure_errors > 0);
  };
  if (std::ranges::any_of(report.runs, measured)) {
    page.add("tensors", "Which tensors the bytes belong to", "<div id=\"tensor-bars\"></div>\n");
  }
  page.add("notes", "What went wrong, and other remarks", notes_html(report));
  page.add("commands", "How to repeat the runs", commands_html(report));
  return page.html();
}

std::string page_data(const Report& report) {
  Json json;
  json["groups"] = Json::array();
  for (const RunGroup& group : report.groups) {
    json["groups"].push_back({{"name", group.name}, {"title", group.title()}, {"runs", group.runs.size()}});
  }
  json["plots"] = json_of_plots(report);
  json["target"] = report.target ? json_of_target(report) : Json(nullptr);
  json["times"] = json_of_times(report);
  json["tensors"] = json_of_tensors(report);
  // Names of folders need not be UTF-8.
  return for_page(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace sotto
