#pragma once

#include <string>
#include <vector>

namespace sotto {

// Rows of text under headings. Columns are as wide as their longest cell; the first is aligned to the left, the others
// to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);
  void left(std::size_t column) { left_.at(column) = true; }  // align this column to the left
  // Missing cells at the end of a row are empty.
  void add(std::vector<std::string> row);
  std::string plain() const;
  std::string markdown() const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<std::vector<std::string>> rows_;  // the first one holds the headings
  std::vector<bool> left_;
};

// "12 B", "4.1 KB", "1.72 MB": three digits, thousands.
std::string bytes_text(double bytes);

}  // namespace sotto
