#include "app/report/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Curve wave(std::size_t size) {
  Curve curve;
  for (std::size_t i = 0; i < size; ++i) {
    const auto x = static_cast<double>(i);
    curve.add(x + 1, x / 10, 100 * x, std::sin(x));
  }
  return curve;
}

StepFigures row(std::uint64_t step, std::uint64_t rank, double loss, double ms, std::uint64_t bytes) {
  StepFigures figures;
  figures.step = step;
  figures.rank = rank;
  figures.loss = loss;
  figures.step_ms = ms;
  figures.bytes_sent = bytes;
  return figures;
}

TEST(Curve, OfStepsIsTheMeanOverRanks) {
  const std::vector rows{row(0, 1, 4, 1000, 10), row(0, 0, 2, 3000, 20), row(1, 0, 1, 1000, 30), row(1, 1, 2, 1000, 40),
                         row(2, 1, 7, 1000, 50)};  // rank 0 makes fewer steps
  const Curve curve = curve_of_steps(rows, &StepFigures::loss);
  EXPECT_EQ(curve.step, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(curve.mean, (std::vector<double>{3, 1.5, 7}));
  EXPECT_EQ(curve.seconds, (std::vector<double>{2, 3, 3}));
  EXPECT_EQ(curve.bytes, (std::vector<double>{30, 100, 150}));
}

TEST(Curve, TheClockSurvivesChangesOfRanks) {
  std::vector rows{row(0, 0, 1, 1000, 0), row(1, 0, 1, 1000, 0), row(2, 0, 1, 1000, 0), row(2, 1, 1, 3000, 0),
                   row(3, 1, 1, 500, 0)};
  for (std::size_t i = 2; i < rows.size(); ++i) rows[i].group = i == 4 ? 3 : 2;
  EXPECT_EQ(curve_of_steps(rows, &StepFigures::loss).seconds, (std::vector<double>{1, 2, 4, 4.5}));
}

TEST(Curve, OfEvaluationsIsThatOfOneSplit) {
  static constexpr std::array kinds{Metric{.name = "loss", .label = "", .summary = ""},
                                    Metric{.name = "bleu", .label = "", .summary = ""}};
  const std::vector<EvaluationRow> rows{
      {.step = 5, .seconds = 1, .bytes_sent = 9, .split = Split::train, .metrics = {kinds, {1, 2}}},
      {.step = 5, .seconds = 1, .bytes_sent = 9, .split = Split::test, .metrics = {kinds, {3, 4}}}};
  EXPECT_EQ(curve_of_evaluations(rows, "bleu", Split::test).mean, std::vector<double>{4});
  EXPECT_EQ(curve_of_evaluations(rows, "loss", Split::train).mean, std::vector<double>{1});
}

TEST(Curve, AMeanHasTheStepsThatAllHave) {
  Curve a, b;
  a.add(1, 1, 10, 1);
  a.add(2, 2, 20, 2);
  a.add(4, 4, 40, nan);
  b.add(2, 4, 40, 6);
  b.add(3, 5, 50, 7);
  b.add(4, 6, 60, 8);
  const std::vector curves{a, b};
  const Curve mean = mean_of(curves);
  EXPECT_EQ(mean.step, (std::vector<double>{2, 4}));
  EXPECT_EQ(mean.mean[0], 4);
  EXPECT_EQ(mean.low[0], 2);
  EXPECT_EQ(mean.high[0], 6);
  EXPECT_EQ(mean.seconds[0], 3);
  EXPECT_EQ(mean.bytes[0], 30);
  EXPECT_TRUE(std::isnan(mean.mean[1]));
  EXPECT_EQ(mean_of({}).size(), 0U);
}

TEST(Curve, ExtremesOutliveDownsampling) {
  Curve curve = wave(10'000);
  const auto set = [&](std::size_t i, double value) { curve.mean[i] = curve.low[i] = curve.high[i] = value; };
  set(3217, 50);
  set(7001, -60);
  set(5000, nan);
  curve.high[4444] = 70;  // of one of several runs
  const Curve small = downsampled(curve, 100);
  EXPECT_LE(small.size(), 203U);
  EXPECT_TRUE(std::ranges::is_sorted(small.step));
  EXPECT_EQ(small.step.front(), 1);
  EXPECT_EQ(small.step.back(), 10'000);
  EXPECT_EQ(std::ranges::count(small.mean, 50), 1);
  EXPECT_EQ(std::ranges::count(small.mean, -60), 1);
  EXPECT_EQ(std::ranges::count(small.high, 70), 1);
  EXPECT_EQ(std::ranges::count_if(small.mean, [](double value) { return std::isnan(value); }), 1);
  for (std::size_t i = 0; i < small.size(); ++i) {  // points are from the curve
    const auto at = static_cast<std::size_t>(small.step[i]) - 1;
    EXPECT_EQ(small.bytes[i], curve.bytes[at]);
  }
}

TEST(Curve, EveryBucketKeepsItsExtremes) {
  const Curve curve = wave(1002), small = downsampled(curve, 50);
  for (std::size_t b = 0; b < 50; ++b) {
    const auto begin = curve.mean.begin() + static_cast<std::ptrdiff_t>(1 + 20 * b);
    const auto [low, high] = std::minmax_element(begin, begin + 20);
    EXPECT_EQ(std::ranges::count(small.mean, *low), 1) << b;
    EXPECT_EQ(std::ranges::count(small.mean, *high), 1) << b;
  }
}

TEST(Curve, AShortOneStaysAsItIs) {
  const Curve curve = wave(202);
  EXPECT_EQ(downsampled(curve, 100).mean, curve.mean);
  EXPECT_EQ(downsampled({}, 100).size(), 0U);
}

TEST(Curve, BucketsKeepToABudget) {
  const std::vector<std::size_t> few{10'000, 10}, many(80, 10'000);
  EXPECT_EQ(buckets_for(few, 16'000, 25, 400), 400U);
  EXPECT_EQ(buckets_for(many, 16'000, 25, 400), 99U);
  EXPECT_EQ(buckets_for(std::vector<std::size_t>(10'000, 10'000), 16'000, 25, 400), 25U) << "never fewer";
}

const std::string header =
    "step,rank,epoch,loss,lr,step_ms,compute_ms,encode_ms,network_ms,decode_ms,wait_ms,queue_ms,data_ms,bytes_sent,"
    "bytes_received\n";

TEST(StepRows, AreReadUpToACrash) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  write(path, header + "0,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n0,0,0,nan,0.1,10,6,1,3,2,4,0,0.5,200,90\n1,1,0,2");
  const StepRows found = read_step_rows(path);
  ASSERT_EQ(found.rows.size(), 2U) << "a line without its end is left out";
  EXPECT_EQ(found.rows[0].rank, 1U);
  EXPECT_EQ(found.rows[0].loss, 2.5);
  EXPECT_EQ(found.rows[0].wait_ms, 4);
  EXPECT_EQ(found.rows[0].data_ms, 0.5);
  EXPECT_EQ(found.rows[1].bytes_sent, 200U);
  EXPECT_TRUE(std::isnan(found.rows[1].loss));
}

TEST(StepRows, HaveTheGroupThatMadeThem) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  const std::string row = ",0,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n";
  write(path, header + "0" + row + "5" + row + "7" + row + "8" + row);
  EXPECT_EQ(read_step_rows(path).groups.size(), 1U);
  write(folder.path() / "membership.csv",
        "generation,step,ranks,members,new,threads,from,epoch\n1,0,2,0 1,0 1,1 1,start,0\n2,6,1,0,,1,generation 1,0.5\n"
        "3,5,2,0 1,1,1 1,generation 1,0.4\n4,8,3,0 1 2,2,1 1 1,generation 3,0.6\n5,9,1,");
  const StepRows found = read_step_rows(path);
  EXPECT_EQ(found.groups, (std::map<std::uint64_t, std::uint64_t>{{0, 2}, {5, 2}, {8, 3}}));
  EXPECT_EQ(found.newcomers, (std::map<std::uint64_t, std::set<std::uint64_t>>{{5, {1}}, {8, {2}}}));
  std::vector<std::uint64_t> groups;
  for (const StepFigures& one : found.rows) groups.push_back(one.group);
  EXPECT_EQ(groups, (std::vector<std::uint64_t>{0, 5, 5, 8}));
  write(folder.path() / "membership.csv", "generation,step,ranks,members,new,threads,from,epoch\ndamaged\n");
  EXPECT_NE(message_of([&] { read_step_rows(path); }).find("membership.csv:2: it has 1 cells, not 8"),
            std::string::npos);
}

TEST(StepRows, WhatIsDamagedIsToldWithItsLine) {
  const TempFolder folder;
  const auto path = folder.path() / "steps.csv";
  const auto refusal = [&](const std::string& text) {
    write(path, text);
    return message_of([&] { read_step_rows(path); });
  };
  const std::string at = path.string(), row = "0,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n";
  const std::string other_columns = at + ":1: its columns are not `" + header.substr(0, header.size() - 1) +
                                    "`: it is damaged, or of another version of sotto";
  EXPECT_EQ(refusal(""), at + ":1: it is empty: no run wrote it");
  EXPECT_EQ(refusal("step,rank\n"), other_columns);
  EXPECT_EQ(refusal("\x01\x02"), other_columns);
  EXPECT_EQ(refusal(header + row + "1,1,0,2.5\n"), at + ":3: it has 4 cells, not 15");
  EXPECT_EQ(refusal(header + "0,1,0,2.5x,0.1,10,6,1,3,2,4,0,0.5,100,90\n"),
            at + ":2: `2.5x` is no number of the column loss");
  EXPECT_EQ(refusal(header + "-1,1,0,2.5,0.1,10,6,1,3,2,4,0,0.5,100,90\n"),
            at + ":2: `-1` is no number of the column step");
  EXPECT_EQ(refusal(header + row + row), at + ":3: rank 1 makes step 0 after step 0");
  EXPECT_NE(message_of([&] { read_step_rows(folder.path() / "none.csv"); }).find("none.csv"), std::string::npos);
}

}  // namespace
}  // namespace sotto
