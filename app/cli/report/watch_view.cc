#include "app/cli/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "app/cli/report/plot.h"
#include "app/report/text_table.h"
#include "app/train/options/choices.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {
namespace {

constexpr std::size_t recent_steps = 20;  // figures of a step are means over so many
constexpr int least_plot = 8, most_plot = 20;

std::string time_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  const auto whole = static_cast<long long>(seconds);
  if (whole < 6000) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// "lenet on digits, ef | topk(0.01), 4 ranks"
std::string what_runs(const LiveRun& run) {
  return fmt::format("{} on {}, {}, {} rank{}", run.options.model, run.options.data.data, run.options.codec,
                     run.options.ranks, run.options.ranks == 1 ? "" : "s");
}

// The steps of the furthest rank or, if ranks go at their own speed, the mean over the ranks.
std::uint64_t steps_made(const LiveRun& run) {
  std::uint64_t most = 0, sum = 0;
  const std::vector<StepFigures> latest = run.latest();
  for (const StepFigures& row : latest) {
    most = std::max(most, row.step + 1);
    sum += row.step + 1;
  }
  const AlgorithmSpec algorithm = read_algorithm("algorithm", run.options.algorithm);
  return has_own_speed(algorithm, static_cast<int>(latest.size())) ? sum / latest.size() : most;
}

std::string rates_line(const LiveRun& run) {
  const auto ranks = run.recent(recent_steps);
  double sent = 0;
  for (const StepFigures& row : run.rows) sent += static_cast<double>(row.bytes_sent);
  const AlgorithmSpec algorithm = read_algorithm("algorithm", run.options.algorithm);
  const auto idle = static_cast<std::uint64_t>(idle_ranks(algorithm, static_cast<int>(ranks.size())));
  double all = 0, computing = 0;  // steps per second of all ranks that compute, added up; the number of these ranks
  for (const RankTimes& rank : ranks) {
    if (rank.rank < idle) continue;
    all += 1e3 / rank.means.step_ms;  // speeds differ if ranks go at their own speed
    ++computing;
  }
  const double seen = static_cast<double>(run.options.batch_size * run.options.accumulate) * all;
  return fmt::format("{:.1f} steps/s, {:.0f} examples/s; {} sent by all ranks", all / std::max(computing, 1.0), seen,
                     bytes_text(sent));
}

std::string evaluations_line(const LiveRun& run) {
  const Metric& goal = run.task->goal_metric();
  Evaluations all(run.task->metrics, goal, {});
  const EvaluationRow* last = nullptr;
  for (const EvaluationRow& row : run.evaluations) {
    all.add(row);
    if (row.split == Split::test) last = &row;
  }
  if (last == nullptr) return "not evaluated yet";
  std::string line = evaluation_line(*last);
  if (all.best() && all.best()->step != last->step) {
    line += fmt::format("; best {} {} after {}", goal.name, goal.with_unit(all.best()->metrics.value(goal.name)),
                        all.best()->step);
  }
  return line;
}

std::vector<std::string> plot_of(const LiveRun& run, int columns, int lines) {
  const Curve curve = downsampled(run.loss(), static_cast<std::size_t>(columns));
  PlotSeries series{"loss", {}};
  for (std::size_t i = 0; i < curve.size(); ++i) series.points.push_back({curve.step[i], curve.mean[i], ""});
  return to_lines({"training loss", "steps", "", false, false, {std::move(series)}}, columns, lines);
}

std::vector<std::string> table_of(const LiveRun& run, std::size_t most) {
  TextTable table({"rank", "steps", "loss", "ms a step", "compute", "data", "waiting", "encode", "network", "decode",
                   "sent a step"});
  const auto times = run.recent(recent_steps);
  const auto latest = run.latest();
  const auto ms = [](double value) { return fmt::format("{:.1f}", value); };
  for (std::size_t r = 0; r < std::min(most, times.size()); ++r) {
    const Recorder::Figures& m = times[r].means;
    table.add({std::to_string(times[r].rank), std::to_string(latest[r].step + 1), value_text(latest[r].loss),
               ms(m.step_ms), ms(m.compute_ms), ms(m.data_ms), ms(m.wait_ms), ms(m.encode_ms), ms(m.network_ms),
               ms(m.decode_ms), bytes_text(m.bytes_sent)});
  }
  std::vector<std::string> lines{""};
  for (const char c : table.plain()) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  if (lines.back().empty()) lines.pop_back();
  if (times.size() > most) lines.push_back(fmt::format("and {} more ranks", times.size() - most));
  return lines;
}

}  // namespace

std::string progress_line(const LiveRun& run) {
  const auto latest = run.latest();
  const auto ranks = run.recent(recent_steps);
  double loss = 0, epoch = 0;
  for (const StepFigures& row : latest) {
    loss += row.loss / static_cast<double>(latest.size());
    epoch = std::max(epoch, row.epoch);
  }
  std::string line = fmt::format("step {}", steps_made(run));
  if (run.options.max_steps) line += fmt::format(" of {}", *run.options.max_steps);
  line += fmt::format("  epoch {:.2f} of {}  loss {}  {:.1f} ms a step  {} sent a rank and step", epoch,
                      run.options.epochs, value_text(loss), mean_of(ranks, &Recorder::Figures::step_ms),
                      bytes_text(mean_of(ranks, &Recorder::Figures::bytes_sent)));
  if (const auto left = run.left(); run.running && left) line += fmt::format("  {} left", time_text(*left));
  return line;
}

std::string evaluation_line(const EvaluationRow& row) {
  return fmt::format("test after {} steps: {}", row.step, row.metrics.text());
}

std::string state_line(const LiveRun& run) {
  const double step_seconds = mean_of(run.recent(recent_steps), &Recorder::Figures::step_ms) / 1e3;
  if (run.running) {
    // Rows are written once a second, but not during a long evaluation, or while a rank hangs.
    const bool long_ago = run.quiet > std::max(10.0, 5 * step_seconds);
    return long_ago ? fmt::format("running; no step for {}", time_text(run.quiet)) : "running";
  }
  if (!run.summary)
    return fmt::format("stopped without a result after {} steps: it failed or was killed", steps_made(run));
  const RunSummary& s = *run.summary;
  std::string line =
      s.signal != 0 ? fmt::format("stopped by signal {} ({})", s.signal, ::strsignal(s.signal)) : "ended";
  line += fmt::format(" after {} steps", s.steps);
  if (s.tested) line += fmt::format(": test {} {}", s.goal.name, s.tested_text());
  if (s.diverged) line += "; it diverged: its test loss is far worse than guessing";
  if (s.until)
    line += fmt::format("; {} {}{}", s.until->target.text(), s.until->reached ? "reached " : "", s.until->text());
  return line;
}

std::vector<std::string> view_of(const LiveRun& run, int columns, int lines) {
  std::vector<std::string> view{fmt::format("{}: {}", run.name, what_runs(run)), state_line(run), progress_line(run),
                                rates_line(run), evaluations_line(run)};
  // The table comes before the plot where there is no room for both.
  const int room = lines - 1 - static_cast<int>(view.size()) - 2;  // the last line stays free
  const std::size_t most = std::max(1, room - least_plot - 1);
  const std::vector<std::string> table = table_of(run, most);
  const int left = room - static_cast<int>(table.size());
  if (left >= least_plot && columns >= 40) {
    view.emplace_back();
    for (std::string& line : plot_of(run, columns, std::min(left, most_plot))) view.push_back(std::move(line));
  }
  view.emplace_back();
  view.insert(view.end(), table.begin(), table.end());
  view.resize(std::min(view.size(), static_cast<std::size_t>(std::max(1, lines - 1))));  // for a terminal of few lines
  return view;
}

}  // namespace sotto
