#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A cell of text, which is escaped.
struct HtmlCell {
  std::string text;
  bool is_best = false;  // of its column; readers see a mark, and hear it
  int group = -1;        // of runs, whose colour stands before the text; -1: none
};

// A table with headings of rows and columns, which scrolls sideways where it is too wide.
class HtmlTable {
 public:
  HtmlTable(std::string_view id, std::string_view caption, const std::vector<HtmlCell>& headings);
  void add(const std::vector<HtmlCell>& row);  // its first cell is its heading
  std::string html() const;

 private:
  std::string text_;
};

}  // namespace sotto
