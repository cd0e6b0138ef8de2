#include "app/cli/text_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sotto {
namespace {

// The dots of a line of text, from its UTF-8: as many as bits are set.
int dots_in(const std::string& line) {
  int dots = 0;
  for (std::size_t i = 0; i + 2 < line.size(); ++i) {
    if (static_cast<unsigned char>(line[i]) != 0xE2 || (static_cast<unsigned char>(line[i + 1]) & 0xFC) != 0xA0)
      continue;
    const unsigned bits = (line[i + 1] & 3U) << 6 | (line[i + 2] & 0x3FU);
    dots += __builtin_popcount(bits);
  }
  return dots;
}

std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

std::vector<std::string> drawn(std::vector<PlotPoint> points) {
  return to_lines({"title", "x", "", false, false, {{"line", std::move(points)}}}, 60, 12);
}

TEST(TextPlot, HasItsSizeAndAxes) {
  const auto lines = drawn({{0, 0, ""}, {100, 10, ""}});
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_EQ(lines.front(), "title");
  for (const std::string& line : lines) EXPECT_LE(columns_of(line), 60U) << line;
  EXPECT_NE(lines[1].find("10 \u2524"), std::string::npos) << "the greatest value is at the top";
  EXPECT_NE(lines[9].find(" 0 \u2524"), std::string::npos);
  EXPECT_TRUE(lines.back().ends_with(" x"));
  for (int i = 1; i < 10; ++i) EXPECT_GT(dots_in(lines[i]), 0) << "a steep line has no holes";
}

TEST(TextPlot, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  int whole = 0, gap = 0;
  for (const std::string& line : drawn({{0, 1, ""}, {50, 1, ""}, {100, 1, ""}})) whole += dots_in(line);
  for (const std::string& line : drawn({{0, 1, ""}, {50, nan, ""}, {100, 1, ""}})) gap += dots_in(line);
  EXPECT_GT(whole, 100);
  EXPECT_EQ(gap, 2);
  EXPECT_EQ(drawn({{0, nan, ""}}).size(), 12U);
  EXPECT_EQ(drawn({}).size(), 12U);
}

}  // namespace
}  // namespace sotto
