#include "app/cli/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace sotto {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

Plot plot_of(std::vector<PlotPoint> points, bool logarithmic) {
  return {"a < b & \"c\"", "x", "y", logarithmic, logarithmic, {{"line", std::move(points)}}};
}

TEST(Plot, EveryPointIsThereWithItsLabel) {
  const std::vector plots{plot_of({{1, 2, "one"}, {2, 3, "<two>"}}, false),
                          plot_of({{1e-3, 1, ""}, {10, 1e6, ""}}, true)};
  const std::string svg = to_svg(plots);
  EXPECT_EQ(count(svg, "<circle"), 4U);
  EXPECT_EQ(count(svg, ">one<"), 1U);
  EXPECT_EQ(count(svg, "&lt;two&gt;"), 1U);
  EXPECT_EQ(count(svg, "a &lt; b &amp; &quot;c&quot;"), 2U);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0U);
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

TEST(Plot, PointsLieWhereTheAxesSay) {
  const std::string svg = to_svg(std::vector{plot_of({{1, 1, ""}, {10, 100, ""}, {100, 10000, ""}}, true)});
  std::vector<double> x;
  std::vector<double> y;
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), circle), end; at != end; ++at) {
    x.push_back(std::stod((*at)[1]));
    y.push_back(std::stod((*at)[2]));
  }
  ASSERT_EQ(x.size(), 3U);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.2);
  EXPECT_NEAR(y[0] - y[1], y[1] - y[2], 0.2);
  EXPECT_GT(x[2], x[0]);
  EXPECT_LT(y[2], y[0]);  // y grows downwards, so the curve rises
}

TEST(Plot, WhatAnAxisCannotShowIsLeftOut) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(count(to_svg(std::vector{plot_of({{0, 1, ""}, {none, 1, ""}, {1, 1, ""}}, true)}), "<circle"), 1U);
  const std::string svg = to_svg(std::vector{plot_of({}, true), plot_of({{5, 0, ""}}, false)});
  EXPECT_EQ(count(svg, "<circle"), 1U);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0U);
}

TEST(Axis, ValuesThatDifferInRoundingAreOne) {
  for (const bool logarithmic : {false, true}) {
    for (const double value : {22.0, 1.0, 1e-300, 1e300}) {
      Axis axis(logarithmic);
      axis.cover(value);
      axis.cover(std::nextafter(value, 2 * value));
      axis.widen(0.05);
      EXPECT_LE(axis.ticks().size(), 20U) << value;
    }
  }
}

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
