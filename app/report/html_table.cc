#include "app/report/html_table.h"

#include <fmt/format.h>

#include "app/report/markup.h"

namespace sotto {
namespace {

std::string content(const HtmlCell& cell) {
  std::string text = escaped(cell.text);
  if (cell.group >= 0) text = fmt::format("<i class=\"chip g{}\"></i>{}", cell.group % 10, text);
  if (cell.is_best)
    text = fmt::format("<strong title=\"the best\">{}<span class=\"unseen\"> (best)</span></strong>", text);
  return text;
}

}  // namespace

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

}  // namespace sotto
