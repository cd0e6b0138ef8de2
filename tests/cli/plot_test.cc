#include "app/cli/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "app/cli/axis.h"

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

}  // namespace
}  // namespace sotto
