#include "sotto/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sotto/core/version.h"
#include "sotto/report/markup.h"
#include "sotto/report/page_parts.h"

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

std::string section(std::string_view id, std::string_view heading, std::string_view content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, heading, content);
}

// A script must not end in a text of its own.
std::string script(std::string_view text) { return fmt::format("<script>\n{}\n</script>\n", text); }

// Nothing is loaded from anywhere, even if a text of a run had been taken for markup. A page that is watched asks its
// own server for itself.
std::string head_of(std::string_view title, bool live, std::string_view more) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src "
      "'unsafe-inline'; img-src data:{}\">\n<link rel=\"icon\" "
      "href=\"data:,\">\n<title>{}</title>\n{}</head>\n<body>\n",
      live ? "; connect-src 'self'" : "", title, more);
}

}  // namespace

std::size_t Report::group_of(std::size_t run) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::find(groups[g].runs, run) != groups[g].runs.end()) return g;
  }
  throw std::logic_error("a run without a group");
}

std::string to_page(const Report& report) {
  const std::string title = escaped(title_of(report));
  const bool live = !report.state.empty();
  std::string page =
      head_of(title, live, fmt::format("<style>\n{}\n{}\n</style>\n", page_parts::uplot_style, page_parts::style));
  page += fmt::format("<header><h1>{}</h1>{}</header>\n<main>\n", title,
                      live ? fmt::format("<p id=\"state\" role=\"status\"{}>{}</p>",
                                         report.goes_on ? " data-goes-on" : "", escaped(report.state))
                           : "");
  page += section("differences", "How the runs differ", differences_html(report));
  page += section("results", "Results", runs_html(report));
  if (report.target) {
    page +=
        section("target", fmt::format("Until {}", escaped(report.target->text())), "<div id=\"target-bars\"></div>\n");
  }
  page += section("curves", "Curves",
                  "<noscript><p>The curves are drawn by a script, which this browser does not run.</p></noscript>\n"
                  "<div id=\"controls\"></div>\n<div id=\"plots\"></div>\n");
  page += section("time", "Where the time of a step goes", "<div id=\"times\"></div>\n");
  page += section("notes", "What went wrong, and other remarks", notes_html(report));
  page += section("commands", "How to repeat the runs", commands_html(report));
  page += fmt::format("</main>\n<footer>Made by sotto {}. Curves are drawn by uPlot.</footer>\n", version);
  page += fmt::format("<script id=\"data\" type=\"application/json\">{}</script>\n", page_data(report));
  page += script(fmt::format("/*\n{}*/\n{}", page_parts::uplot_license, page_parts::uplot_script));
  page += script(page_parts::script);
  return page + "</body>\n</html>\n";
}

std::string waiting_page(const std::string& run) {
  const std::string name = escaped(run);
  return head_of(name, true, "<meta http-equiv=\"refresh\" content=\"2\">\n") +
         fmt::format("<h1>{}</h1>\n<p>No step has been made yet.</p>\n</body>\n</html>\n", name);
}

}  // namespace sotto
