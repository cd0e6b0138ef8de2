#include "app/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "app/report/page_frame.h"

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

}  // namespace

std::size_t Report::group_of(std::size_t run) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::find(groups[g].runs, run) != groups[g].runs.end()) return g;
  }
  throw std::logic_error("a run without a group");
}

std::string to_page(const Report& report) {
  PageFrame page{
      .title = title_of(report), .state = report.state, .goes_on = report.goes_on, .data = page_data(report)};
  page.add("differences", "How the runs differ", differences_html(report));
  page.add("results", "Results", runs_html(report));
  if (report.target) page.add("target", "Until " + report.target->text(), "<div id=\"target-bars\"></div>\n");
  page.add("curves", "Curves", PageFrame::plots);
  page.add("time", "Where the time of a step goes", "<div id=\"times\"></div>\n");
  // A page that is served fills in what comes later, but only where it has a place for it.
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

}  // namespace sotto
