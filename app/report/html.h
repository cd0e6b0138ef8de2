#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Escapes text for HTML and SVG: between tags, and in attributes with double or single quotes.
std::string escaped(std::string_view text);

// A cell of text, which is escaped.
struct HtmlCell {
  std::string text;
  bool is_best = false;  // whether it is the best of its column; a mark shows this, also to screen readers
  int group = -1;        // the group of runs whose colour is before the text; -1: none
};

// A table with headings of rows and columns, which scrolls sideways where it is too wide.
class HtmlTable {
 public:
  HtmlTable(std::string_view id, std::string_view caption, const std::vector<HtmlCell>& headings);
  void add(const std::vector<HtmlCell>& row);  // the first cell is the row's heading
  std::string html() const;

 private:
  std::string text_;
};

// A self-contained HTML document: headings with content from the caller, and the script that draws `data`.
struct PageFrame {
  std::string title;
  std::string state{};   // the state of a run that is watched; empty: the page is a file
  bool goes_on = false;  // whether a page that is watched loads itself again and again
  std::string data;      // JSON
  std::string sections{};

  // Where the script draws the plots of the data.
  static constexpr std::string_view plots =
      "<noscript><p>The curves are drawn by a script, which this browser does not run.</p></noscript>\n"
      "<div id=\"controls\"></div>\n<div id=\"plots\"></div>\n";
  void add(std::string_view id, std::string_view heading, std::string_view content);
  std::string html() const;
};

// A page for a run that has made no step yet. It loads itself again and again.
std::string waiting_page(const std::string& run);

// JSON for a script element: `</script>` in a text must not end the element.
std::string for_page(std::string_view json);

using Json = nlohmann::ordered_json;

// Seven digits; null for a value that is not finite.
Json number(double value);
Json numbers(const std::vector<double>& values);

}  // namespace sotto
