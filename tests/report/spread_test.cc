#include "app/report/spread.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sotto {
namespace {

Spread of(std::vector<double> values) { return spread_of(values); }

TEST(Spread, IsMeanAndDeviationOfARun) {
  const Spread spread = of({2, 4, 6});
  EXPECT_EQ(spread.mean, 4);
  EXPECT_EQ(spread.deviation, 2);
  EXPECT_EQ(of({3}).deviation, 0);
  EXPECT_TRUE(std::isnan(of({1, std::nan("")}).mean));
  const auto text = [](double value) { return fmt::format("{:.1f} s", value); };
  EXPECT_EQ(spread.text(text), "4.0 s ± 2.0 s");
  EXPECT_EQ(of({3}).text(text), "3.0 s");
  EXPECT_EQ(of({3, 3.01}).text(text), "3.0 s");
}

TEST(Spread, TellsWhatSeedsExplain) {
  using Flags = std::vector<bool>;
  EXPECT_EQ(near_best(std::vector{of({1}), of({2})}, true), (Flags{false, true})) << "no spread is known";
  EXPECT_EQ(near_best(std::vector{of({1}), of({1, 3})}, true), (Flags{true, true})) << "one run may deviate as others";
  EXPECT_EQ(near_best(std::vector{of({1, 1.1}), of({2, 2.1}), of({1.9, 2.3})}, false), (Flags{true, false, false}));
  EXPECT_EQ(near_best(std::vector{of({std::nan("")}), of({2})}, true), (Flags{false, true}));
}

}  // namespace
}  // namespace sotto
