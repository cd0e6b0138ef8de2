#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "app/report/html.h"
#include "app/report/page.h"
#include "app/report/text_table.h"

namespace sotto {
namespace {

int colour_of(const Report& report, std::size_t run) { return static_cast<int>(report.group_of(run)); }

std::vector<HtmlCell> headings_of_runs(const Report& report, std::string first) {
  std::vector<HtmlCell> cells{{std::move(first)}};
  for (std::size_t r = 0; r < report.runs.size(); ++r) {
    cells.push_back({.text = report.runs[r].name, .group = colour_of(report, r)});
  }
  return cells;
}

// A column of figures, one for each run. `best` says which of two figures is better.
struct Column {
  std::string heading;
  std::function<std::optional<double>(const RecordedRun&)> value;
  std::function<std::string(double)> text;
  enum class Best : std::uint8_t { none, least, most } best = Best::none;
};

// The options that decide which examples tests have.
auto test_data(const DataOptions& o) {
  return std::tie(o.data, o.data_dir, o.data_seed, o.test_size, o.image_size, o.tokens, o.languages, o.test_set);
}

// Whether the runs are tested for the same task on the same data: a perplexity of one text says nothing about
// another's.
bool can_be_compared(const Report& report) {
  const RecordedRun& first = report.runs.front();
  return std::ranges::all_of(report.runs, [&](const RecordedRun& run) {
    return run.task == first.task && test_data(run.options.data) == test_data(first.options.data);
  });
}

// Marks the best groups (with equal means) if the spread of seeds does not explain the distance to the others. A group
// with runs that lack the figure, because they did not reach the target, is not the best.
std::vector<bool> marks_of(const Column& column, const Report& report, std::span<const std::optional<Spread>> figures) {
  std::vector<bool> marks(figures.size(), false);
  if (column.best == Column::Best::none || !can_be_compared(report)) return marks;
  std::vector<std::size_t> groups;
  std::vector<Spread> known;
  for (std::size_t g = 0; g < figures.size(); ++g) {
    if (!figures[g] || !std::isfinite(figures[g]->mean) || figures[g]->count < report.groups[g].runs.size()) continue;
    groups.push_back(g);
    known.push_back(*figures[g]);
  }
  if (known.empty()) return marks;
  const bool rises = column.best == Column::Best::most;
  const auto by_mean = [](const Spread& one, const Spread& other) { return one.mean < other.mean; };
  const double best = (rises ? std::ranges::max(known, by_mean) : std::ranges::min(known, by_mean)).mean;
  const std::vector<bool> near = near_best(known, rises);
  const auto is_best = [&](std::size_t i) { return known[i].mean == best; };
  std::size_t count = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (near[i] && !is_best(i)) return marks;
    count += is_best(i) ? 1 : 0;
  }
  if (count == known.size()) return marks;  // all are equal
  for (std::size_t i = 0; i < known.size(); ++i) marks[groups[i]] = is_best(i);
  return marks;
}

std::string short_number(double value) { return fmt::format("{:.4g}", value); }
std::string count(double value) { return fmt::format("{:.0f}", value); }
std::string seconds(double value) { return fmt::format("{:.1f} s", value); }
std::string ms(double value) { return fmt::format("{:.1f}", value); }
std::string percent(double value) { return fmt::format("{:.0f} %", 100 * value); }

Column::Best direction(const Metric& metric) { return metric.rises ? Column::Best::most : Column::Best::least; }

// Every metric of the runs: of its best or last row of the test split.
std::vector<Column> metric_columns(const Report& report) {
  std::vector<Column> columns;
  for (const auto& [metric, is_goal] : metrics_of(report)) {
    const auto value_of = [metric = metric](const std::optional<EvaluationRow>& row) -> std::optional<double> {
      if (!row || !metric_table(row->metrics.kinds).find(metric.name)) return std::nullopt;
      return row->metrics.value(metric.name);
    };
    const auto text = [metric = metric](double value) { return metric.with_unit(value); };
    if (is_goal) {
      columns.insert(columns.begin(),
                     {fmt::format("best {}", metric.name), [=](const RecordedRun& run) { return value_of(run.best()); },
                      text, direction(metric)});
    }
    columns.push_back({fmt::format("last {}", metric.name),
                       [=](const RecordedRun& run) { return value_of(run.last()); }, text, direction(metric)});
  }
  return columns;
}

std::vector<Column> target_columns(const Target& target) {
  const auto of = [target](auto figure) {
    return [target, figure](const RecordedRun& run) -> std::optional<double> {
      const auto row = run.reached(target);
      return row ? std::optional(figure(*row)) : std::nullopt;
    };
  };
  const auto heading = [&](std::string_view what) { return fmt::format("{} to {}", what, target.text()); };
  using Best = Column::Best;
  return {{heading("steps"), of([](const EvaluationRow& row) { return static_cast<double>(row.step); }), count,
           Best::least},
          {heading("time"), of([](const EvaluationRow& row) { return row.seconds; }), seconds, Best::least},
          {heading("bytes"), of([](const EvaluationRow& row) { return static_cast<double>(row.bytes_sent); }),
           bytes_text, Best::least}};
}

std::vector<Column> cost_columns() {
  using Best = Column::Best;
  return {
      {"steps",  // of the run, and not of the furthest rank if ranks go at their own speed
       [](const RecordedRun& run) {
         return run.summary ? static_cast<double>(run.summary->steps) : run.loss.step.back();
       },
       count},
      {"time", [](const RecordedRun& run) { return run.loss.seconds.back(); }, seconds},
      {"sent by all ranks", [](const RecordedRun& run) { return run.loss.bytes.back(); }, bytes_text},
      {"sent a rank and step",
       [](const RecordedRun& run) { return mean_of(run.ranks, &Recorder::Figures::bytes_sent); }, bytes_text,
       Best::least},
      {"dense / sent",
       [](const RecordedRun& run) -> std::optional<double> {
         if (!run.summary || run.summary->bytes_per_step <= 0) return std::nullopt;
         return run.summary->dense_bytes_per_step / run.summary->bytes_per_step;
       },
       short_number, Best::most},
      {"ms a step", [](const RecordedRun& run) { return mean_of(run.ranks, &Recorder::Figures::step_ms); }, ms,
       Best::least},
      {"hidden",
       [](const RecordedRun& run) -> std::optional<double> {
         double sum = 0;
         for (const RankTimes& rank : run.ranks) {
           const auto hidden = rank.means.hidden();
           if (!hidden) return std::nullopt;
           sum += *hidden;
         }
         return sum / static_cast<double>(run.ranks.size());
       },
       percent, Best::most},
  };
}

// Notes on curves over several seeds, which only have the steps that all runs of the group have.
std::vector<Note> notes_of(const Report& report, const RunGroup& group) {
  std::vector<Note> notes;
  const auto run = [&](std::size_t r) -> const RecordedRun& { return report.runs[r]; };
  const auto by_steps = [&](std::size_t r) { return run(r).loss.step.back(); };
  const auto [shortest, longest] = std::ranges::minmax(group.runs, {}, by_steps);
  if (by_steps(shortest) < 0.9 * by_steps(longest)) {  // ranks at their own speed differ a little
    notes.push_back({fmt::format("the curves end with the shortest run: {} has {} steps, {} has {}", run(shortest).name,
                                 by_steps(shortest), run(longest).name, by_steps(longest)),
                     false});
  }
  std::vector<Curve> tests;
  for (const std::size_t r : group.runs) {
    tests.push_back(curve_of_evaluations(run(r).evaluations, run(r).task->goal, Split::test));
  }
  const bool any = std::ranges::any_of(tests, [](const Curve& curve) { return curve.size() > 0; });
  if (any && mean_of(tests).size() == 0) {
    notes.push_back(
        {"there are no curves of tests, as no step was tested in all of these runs; a report of fewer of "
         "them has some"});
  }
  return notes;
}

// Adds notes as a list under a heading, if there are any. Returns whether one of them tells of something wrong.
bool add_notes(std::string_view name, std::span<const Note> notes, std::string& html) {
  if (notes.empty()) return false;
  html += fmt::format("<h3>{}</h3>\n<ul>\n", escaped(name));
  for (const Note& note : notes) {
    html += fmt::format("<li{}>{}</li>\n", note.is_wrong ? " class=\"wrong\"" : "", escaped(note.text));
  }
  html += "</ul>\n";
  return std::ranges::any_of(notes, &Note::is_wrong);
}

}  // namespace

std::string differences_html(const Report& report) {
  if (report.runs.size() == 1) return "<p>It is one run; below is how to repeat it.</p>\n";
  const auto found = differences(report.settings);
  if (found.empty()) return "<p>In no option.</p>\n";
  HtmlTable table("differences-table", "Options in which the runs differ", headings_of_runs(report, "option"));
  for (const Difference& one : found) {
    std::vector<HtmlCell> row{{one.name}};
    for (const std::string& value : one.values) row.push_back({value.empty() ? "-" : value});
    table.add(row);
  }
  return table.html();
}

std::string runs_html(const Report& report) {
  std::vector<Column> columns = metric_columns(report);
  const auto more = [&](std::vector<Column> others) { columns.insert(columns.end(), others.begin(), others.end()); };
  if (report.target) more(target_columns(*report.target));
  more(cost_columns());
  std::vector<HtmlCell> headings{{"run"}};
  std::vector<std::vector<HtmlCell>> rows;
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    rows.push_back({{.text = report.groups[g].title(), .group = static_cast<int>(g)}});
  }
  for (const Column& column : columns) {
    headings.push_back({column.heading});
    std::vector<std::optional<Spread>> figures;
    const auto value = [&](std::size_t run) { return column.value(report.runs[run]); };
    for (const RunGroup& group : report.groups) figures.push_back(spread_over(group.runs, value));
    const std::vector<bool> marks = marks_of(column, report, figures);
    for (std::size_t g = 0; g < rows.size(); ++g) {
      const std::size_t runs = report.groups[g].runs.size();
      std::string text = figures[g] ? figures[g]->text(column.text) : "-";
      if (figures[g] && figures[g]->count < runs) text += fmt::format(" ({} of {})", figures[g]->count, runs);
      rows[g].push_back({.text = std::move(text), .is_best = marks[g]});
    }
  }
  const bool several = std::ranges::any_of(report.groups, [](const RunGroup& group) { return group.runs.size() > 1; });
  HtmlTable table("runs-table",
                  several
                      ? "Metrics of the test data, and costs: means over seeds, and the deviation of a run; the best "
                        "values are marked if all runs have the same data, and seeds do not explain the difference"
                      : "Metrics of the test data, and costs; the best values are marked if all runs have the same "
                        "data",
                  headings);
  for (const auto& row : rows) table.add(row);
  return table.html();
}

std::string commands_html(const Report& report) {
  std::string html;
  for (std::size_t r = 0; r < report.runs.size(); ++r) {
    html += fmt::format("<h3><i class=\"chip g{}\"></i>{}</h3>\n<pre tabindex=\"0\"><code>{}</code></pre>\n",
                        colour_of(report, r) % 10, escaped(report.runs[r].name), escaped(report.commands[r]));
  }
  return html;
}

std::string notes_html(const Report& report) {
  std::string html;
  bool any = false;
  for (const RecordedRun& run : report.runs) any = add_notes(run.name, run.notes, html) || any;
  for (const RunGroup& group : report.groups) {
    if (group.runs.size() < 2) continue;
    any = add_notes(group.title(), notes_of(report, group), html) || any;
  }
  for (const LeftOut& run : report.left_out) {
    any = true;
    html += fmt::format("<h3>{}</h3>\n<ul>\n<li class=\"wrong\">it {}, and was left out{}{}</li>\n</ul>\n",
                        escaped(run.name), run.why, run.detail.empty() ? "" : ": ", escaped(run.detail));
  }
  return (any ? "" : "<p>Nothing that the folders tell of.</p>\n") + html;
}

}  // namespace sotto
