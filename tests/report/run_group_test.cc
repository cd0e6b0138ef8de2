#include "app/report/run_group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace sotto {
namespace {

Settings run(const std::string& codec, const std::string& seed, const std::string& lr = "0.1") {
  return {{"codec", codec}, {"lr", lr}, {"seed", seed}};
}
const std::vector<std::string> folders{"a", "b", "c", "d", "e"};

TEST(Settings, AreWhatDecidesTheResult) {
  const Settings settings =
      settings_of({{"train-dir", "x"}, {"lr", "1"}, {"resume", "true"}, {"master", "y"}, {"measure-errors", "5"}});
  EXPECT_EQ(settings, (Settings{{"lr", "1"}}));
}

TEST(Settings, DifferencesNameOptionsAndValues) {
  const std::array runs{run("none", "1"), run("int8", "1"),
                        Settings{{"codec", "none"}, {"lr", "0.1"}, {"seed", "1"}, {"new", "x"}}};
  const auto found = differences(runs);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "codec");
  EXPECT_EQ(found[0].values, (std::vector<std::string>{"none", "int8", "none"}));
  EXPECT_EQ(found[1].name, "new");
  EXPECT_EQ(found[1].values, (std::vector<std::string>{"", "", "x"}));
  EXPECT_TRUE(differences(std::array{run("none", "1"), run("none", "1")}).empty());
}

TEST(Settings, RunsOfDifferentSeedsAreAGroup) {
  const std::array runs{run("none", "1"), run("int8", "1"), run("none", "2"), run("int8", "3"), run("none", "1")};
  const auto groups = group_by_seed(runs, folders);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].runs, (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_EQ(groups[1].runs, (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(groups[0].name, "none") << "the value of the one option that differs, but for the seed";
  EXPECT_EQ(groups[1].name, "int8");
}

TEST(Settings, NamesOfGroupsSayAllThatDiffers) {
  const std::array runs{run("none", "1"), run("int8", "1", "0.2")};
  const auto groups = group_by_seed(runs, folders);
  EXPECT_EQ(groups[1].name, "codec=int8, lr=0.2");
  EXPECT_EQ(group_by_seed(std::array{run("none", "1"), run("none", "2")}, folders).at(0).name, "a");
}

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
