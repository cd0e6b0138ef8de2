#include "app/report/page_frame.h"

#include <fmt/format.h>

#include "app/report/markup.h"
#include "app/report/page_parts.h"
#include "sotto/core/version.h"

namespace sotto {
namespace {

// A string in a script must not close the script element.
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

}  // namespace sotto
