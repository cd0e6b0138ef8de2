#include "app/report/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/report/html.h"

namespace sotto {
namespace {

constexpr const char* evil = "</script><script>alert('1')</script>\"&\xff";

// A run of so many steps, and evaluations at half of it and at its end.
RecordedRun made_run(const std::string& name, std::size_t steps, double best) {
  RecordedRun run;
  run.name = name;
  run.task = &task_table().require("task", "classify");
  for (std::size_t i = 0; i < steps; ++i) {
    const auto x = static_cast<double>(i);
    run.loss.add(x + 1, 0.0123 * x, 123'456 * x, 2 + std::sin(x) * std::exp(-x / 1e4));
    run.rate.add(x + 1, 0.0123 * x, 123'456 * x, 0.1 * (1 - x / 2e4));
  }
  run.ranks = {{.rank = 0, .steps = steps, .means = {{.step_ms = 10, .compute_ms = 6, .wait_ms = 4}, 1000}},
               {.rank = 1, .steps = steps, .means = {{.step_ms = 12, .compute_ms = 6, .wait_ms = 6}, 3000}}};
  for (const auto& [part, accuracy] : {std::pair{0.5, best}, std::pair{1.0, best - 0.125}}) {
    const auto at = static_cast<std::uint64_t>(part * static_cast<double>(steps));
    std::vector<double> values(run.task->metrics.size(), 0.5);
    for (std::size_t m = 0; m < values.size(); ++m) {
      if (run.task->metrics[m].name == "accuracy") values[m] = accuracy;
    }
    run.evaluations.push_back({.step = at,
                               .seconds = 0.0123 * static_cast<double>(at),
                               .bytes_sent = 123 * at,
                               .split = Split::test,
                               .metrics = {run.task->metrics, values}});
  }
  return run;
}

Report made_report(std::size_t runs, std::size_t steps) {
  Report report;
  std::vector<std::string> names;
  for (std::size_t r = 0; r < runs; ++r) {
    names.push_back("run" + std::to_string(r));
    report.runs.push_back(made_run(names.back(), steps, 0.5 + 0.25 / static_cast<double>(r + 1)));
    report.settings.push_back({{"codec", "topk(" + std::to_string(r) + ")"}});
    report.commands.push_back("sotto train");
  }
  report.groups = group_by_seed(report.settings, names);
  return report;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Page, TextIsEscaped) {
  EXPECT_EQ(escaped("<a href=\"x\">'&amp;'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;");
}

TEST(Page, NoTextOfARunIsMarkup) {
  Report report = made_report(2, 10);
  const std::string harmless = to_page(report);
  for (std::size_t r = 0; r < 2; ++r) {
    report.runs[r].name += evil;
    report.runs[r].options.model = report.runs[r].options.data.data = evil;
    report.runs[r].notes = {{evil}};
    report.commands[r] = evil;
    report.settings[r][0].value += evil;
    report.groups[r].name = evil;
  }
  const std::string page = to_page(report);
  const auto count = [](const std::string& text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  for (const char* part : {"<script", "</script"}) EXPECT_EQ(count(page, part), count(harmless, part)) << part;
  EXPECT_FALSE(has(page, "alert('1')</")) << "escaped in every place";
}

TEST(Page, TheBestValuesAreMarked) {
  const std::string table = runs_html(made_report(3, 10));
  const auto row = [&](std::string_view name) {
    const std::size_t at = table.find(std::string(name) + "</th>");
    return table.substr(at, table.find("</tr>", at) - at);
  };
  EXPECT_TRUE(has(row("topk(0)"), "<strong title=\"the best\">75.00 %")) << table;
  EXPECT_FALSE(has(row("topk(1)"), "<strong"));
  EXPECT_TRUE(has(row("topk(1)"), "<td>2.00 KB</td>")) << "the mean over its ranks";
  EXPECT_FALSE(has(runs_html(made_report(1, 10)), "<strong")) << "one run is not the best of any";
  Report mixed = made_report(3, 10);
  mixed.runs[2].options.data.data = "cifar10";
  EXPECT_FALSE(has(runs_html(mixed), "<strong")) << "nor is a run with other data";
  mixed.runs[2].options.data = {.data_dir = "another/text"};
  EXPECT_FALSE(has(runs_html(mixed), "<strong")) << "which may have the same name";
  mixed.runs[2].options.data = {.test_size = 50};
  EXPECT_FALSE(has(runs_html(mixed), "<strong")) << "or be a part of them";
  mixed.runs[2].options.data = {.train_size = 50};
  EXPECT_TRUE(has(runs_html(mixed), "<strong")) << "tests are the same";
}

// Runs of two codecs with three seeds each.
Report report_of_seeds(const std::array<double, 6>& best) {
  Report report;
  std::vector<std::string> names;
  for (std::size_t r = 0; r < best.size(); ++r) {
    names.push_back("run" + std::to_string(r));
    report.runs.push_back(made_run(names.back(), 10, best[r]));
    report.settings.push_back({{"codec", r < 3 ? "none" : "int8"}, {"seed", std::to_string(r % 3)}});
    report.commands.emplace_back("sotto train");
  }
  report.groups = group_by_seed(report.settings, names);
  return report;
}

TEST(Page, SeedsHaveOneRowWithMeanAndDeviation) {
  const std::string table = runs_html(report_of_seeds({0.8, 0.9, 1.0, 0.5, 0.5, 0.5}));
  EXPECT_TRUE(has(table, "none (3 runs)</th>") && has(table, "int8 (3 runs)</th>") && !has(table, "run0")) << table;
  EXPECT_TRUE(has(table, "<strong title=\"the best\">90.00 % ± 10.00 %<")) << table;
  EXPECT_TRUE(has(table, "<td>50.00 %</td>")) << "which all runs have";
}

TEST(Page, SeedsMayLeaveNoBest) {
  EXPECT_FALSE(has(runs_html(report_of_seeds({0.8, 0.9, 1.0, 0.7, 0.8, 0.9})), "<strong"));
  EXPECT_TRUE(has(runs_html(report_of_seeds({0.8, 0.8, 0.8, 0.7, 0.7, 0.7})), "<strong"));
}

TEST(Page, BarsAreMeansOverSeeds) {
  Report report = report_of_seeds({0.8, 0.9, 1.0, 0.5, 0.5, 0.5});
  report.runs[0].ranks[1].means.step_ms = 15;
  report.runs[3].tensors = {2, {{"w", 4, 10}, {"(together)", 0, 32}}};
  report.runs[4].tensors = {6, {{"w", 4, 30}, {"(together)", 0, 32}}};
  const std::string data = page_data(report);
  EXPECT_TRUE(has(data, R"("times":[{"group":0,"rank":0,"step":10,)")) << data.substr(data.find("\"times"), 300);
  EXPECT_TRUE(has(data, R"({"group":0,"rank":1,"step":13,)")) << data.substr(data.find("\"times"), 300);
  EXPECT_TRUE(has(data, R"("tensors":[{"group":1,"steps":8,"rows":[{"name":"w","elements":4,"bytes":25})"));
}

TEST(Page, ATargetThatSomeSeedsReachIsCounted) {
  Report report = report_of_seeds({0.8, 0.9, 1.0, 0.5, 0.5, 0.9});
  report.target = Target{*metric_table(report.runs[0].task->metrics).find("accuracy"), 0.7};
  const std::string table = runs_html(report);
  EXPECT_TRUE(has(table, "<td>5 (1 of 3)</td>")) << table;
  EXPECT_FALSE(has(table, ">5 (1 of 3)<span")) << "it is not the best";
}

TEST(Page, StepsAreThoseOfTheRun) {
  Report report = made_report(2, 37);
  report.runs[1].summary.emplace().steps = 29;  // its furthest rank has made 37
  const std::string table = runs_html(report);
  EXPECT_TRUE(has(table, "<td>37</td>") && has(table, "<td>29</td>")) << table;
}

TEST(Page, TellsWhyCurvesOfAGroupAreShort) {
  Report report = made_report(3, 10);
  report.settings.assign(3, {{"codec", "none"}});
  report.groups = group_by_seed(report.settings, std::vector<std::string>{"run0", "run1", "run2"});
  EXPECT_TRUE(has(notes_html(report), "Nothing that the folders tell of.")) << notes_html(report);
  report.runs[1] = made_run("run1", 6, 0.5);  // tested after 3 and 6 steps, others after 5 and 10
  report.runs[2].evaluations.clear();
  const std::string notes = notes_html(report);
  EXPECT_TRUE(
      has(notes,
          "<h3>run0 (3 runs)</h3>\n<ul>\n<li>the curves end with the shortest run: run1 has 6 steps, run2 has 10</li>"))
      << notes;
  EXPECT_TRUE(has(notes, "no step was tested in all of these runs")) << notes;
  EXPECT_FALSE(has(notes, "Nothing that the folders tell of."));
}

TEST(Page, ATargetHasStepsTimeAndBytes) {
  Report report = made_report(2, 100);
  report.target = Target{*metric_table(report.runs[0].task->metrics).find("accuracy"), 0.7};
  const std::string table = runs_html(report), data = page_data(report);
  EXPECT_TRUE(has(table, "time to accuracy=0.7"));
  EXPECT_TRUE(has(
      data,
      R"("text":"accuracy=0.7","rows":[{"group":0,"runs":1,"reached":1,"seconds":[0.615,0.615,0.615],"bytes":[6150,6150,6150],"steps":[50,50,50]},{"group":1,"runs":1,"reached":0}])"))
      << data.substr(data.find("\"target\""), 400);
}

TEST(Page, HasAPlaceForMeasuredTensors) {
  Report report = made_report(2, 10);
  const auto there = [&] { return has(to_page(report), "id=\"tensor-bars\""); };
  report.runs[1].options.measure_errors = 5;
  EXPECT_FALSE(there()) << "no step was measured";
  report.goes_on = true;
  EXPECT_TRUE(there()) << "it will be";
  report.goes_on = false;
  report.runs[0].tensors = {1, {{"w", 4, 10}, {"(together)", 0, 32}}};
  EXPECT_TRUE(there()) << "measured before a resume without the option";
}

TEST(Page, TenLongRunsAreLessThanAMegabyte) {
  const std::string page = to_page(made_report(10, 10'000));
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_GT(page.size(), 200'000U) << "the curves are in it";
}

TEST(Page, NothingIsLoaded) {
  const std::string page = to_page(made_report(1, 10));
  EXPECT_TRUE(has(page, "default-src 'none'"));
  for (const char* part : {"src=\"", "@import", "url(http", "<link rel=\"stylesheet\""})
    EXPECT_FALSE(has(page, part)) << part;
}

TEST(Page, WhatIsNotFiniteIsAGap) {
  Report report = made_report(1, 3);
  report.runs[0].loss.mean[1] = report.runs[0].loss.low[1] = report.runs[0].loss.high[1] = std::nan("");
  EXPECT_TRUE(has(page_data(report), ",null,")) << page_data(report);
}

}  // namespace
}  // namespace sotto
