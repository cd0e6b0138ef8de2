#include "app/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "sotto/core/text.h"
#include "sotto/core/version.h"

namespace sotto {

// The files of page/ and uplot/, which CMake puts into the program (page_parts.cc.in).
namespace page_parts {
extern const std::string_view style, script, uplot_style, uplot_script, uplot_license;
}

namespace {

std::string content(const HtmlCell& cell) {
  std::string text = escaped(cell.text);
  if (cell.group >= 0) text = fmt::format("<i class=\"chip g{}\"></i>{}", cell.group % 10, text);
  if (cell.is_best)
    text = fmt::format("<strong title=\"the best\">{}<span class=\"unseen\"> (best)</span></strong>", text);
  return text;
}

// A string in a script must not close the script element.
std::string script(std::string_view text) { return fmt::format("<script>\n{}\n</script>\n", text); }

// The policy forbids the page to load anything, in case a text of a run is taken for markup. A page that is watched may
// ask its own server for itself.
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

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

HtmlTable::HtmlTable(std::string_view id, std::string_view caption, const std::vector<HtmlCell>& headings)
    : text_(fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{0}-caption\">\n"
                        "<table id=\"{0}\"><caption id=\"{0}-caption\">{1}</caption>\n<thead><tr>",
                        id, escaped(caption))) {
  for (const HtmlCell& cell : headings) text_ += fmt::format("<th scope=\"col\">{}</th>", content(cell));
  text_ += "</tr></thead>\n<tbody>\n";
}

void HtmlTable::add(const std::vector<HtmlCell>& row) {
  text_ += "<tr>";
  for (std::size_t i = 0; i < row.size(); ++i) {
    text_ += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", content(row[i]))
                    : fmt::format("<td>{}</td>", content(row[i]));
  }
  text_ += "</tr>\n";
}

std::string HtmlTable::html() const { return text_ + "</tbody></table></div>\n"; }

void PageFrame::add(std::string_view id, std::string_view heading, std::string_view content) {
  sections += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, escaped(heading), content);
}

std::string PageFrame::html() const {
  const std::string name = escaped(title);
  const bool live = !state.empty();
  std::string page =
      head_of(name, live, fmt::format("<style>\n{}\n{}\n</style>\n", page_parts::uplot_style, page_parts::style));
  page += fmt::format(
      "<header><h1>{}</h1>{}</header>\n<main>\n", name,
      live ? fmt::format("<p id=\"state\" role=\"status\"{}>{}</p>", goes_on ? " data-goes-on" : "", escaped(state))
           : "");
  page += sections;
  page += fmt::format("</main>\n<footer>Made by sotto {}. Curves are drawn by uPlot.</footer>\n", version);
  page += fmt::format("<script id=\"data\" type=\"application/json\">{}</script>\n", data);
  page += script(fmt::format("/*\n{}*/\n{}", page_parts::uplot_license, page_parts::uplot_script));
  page += script(page_parts::script);
  return page + "</body>\n</html>\n";
}

std::string waiting_page(const std::string& run) {
  const std::string name = escaped(run);
  return head_of(name, true, "<meta http-equiv=\"refresh\" content=\"2\">\n") +
         fmt::format("<h1>{}</h1>\n<p>No step has been made yet.</p>\n</body>\n</html>\n", name);
}

std::string for_page(std::string_view json) {
  std::string text;
  for (const char c : json) text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return parsed<double>(fmt::format("{:.7g}", value)).value_or(value);
}

Json numbers(const std::vector<double>& values) {
  auto array = Json::array();
  for (const double value : values) array.push_back(number(value));
  return array;
}

}  // namespace sotto
