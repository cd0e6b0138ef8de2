#include "app/train/record/gradient_study.h"

#include <gtest/gtest.h>

#include <string>

#include "sotto/codec/decoded_errors.h"
#include "sotto/core/csv_table.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {

// What read_tensor_bytes() makes of these rows.
MeasuredTensors measured(const std::string& rows) {
  const test::TempFolder folder;
  test::write(folder.path() / "tensor_bytes.csv", "step,tensor,elements,bytes\n" + rows);
  return read_tensor_bytes(folder.path());
}

const std::string step_0 = "0,a,4,10\n0,b,2,20\n0,(together),0,32\n";
const std::string step_10 = "10,a,4,20\n10,b,2,40\n10,(together),0,-2\n";

void expect_means(const MeasuredTensors& found) {
  EXPECT_EQ(found.steps, 2U);
  ASSERT_EQ(found.rows.size(), 3U);
  EXPECT_EQ(found.rows[1].tensor, "b");
  EXPECT_EQ(found.rows[1].elements, 2U);
  EXPECT_EQ(found.rows[1].bytes, 30);
  EXPECT_EQ(found.rows[2].bytes, 15);
}

TEST(TensorBytes, AreMeansOverTheStepsThatAreWhole) {
  expect_means(measured(step_0 + step_10));
  expect_means(measured(step_0 + step_10 + "20,a,4,99\n20,b"));
  expect_means(measured(step_0 + "5,a,4,99\n" + step_10));
  expect_means(measured("5,a,4,99\n5,b,2,99\n" + step_0 + step_10));
  EXPECT_TRUE(measured("0,a,4,10\n").rows.empty());
}

TEST(TensorBytes, OfOtherTensorsAreRefused) {
  const auto refusal = [](const std::string& rows) { return test::message_of([&] { measured(step_0 + rows); }); };
  EXPECT_NE(refusal("10,a,4,20\n10,c,2,40\n10,(together),0,-2\n").find(":7: a step with c after one with b"),
            std::string::npos);
  EXPECT_NE(refusal("10,a,4,20\n10,(together),0,-2\n").find(":6: a step of 2 rows after one of 3"), std::string::npos);
}

TEST(CodecErrorCsv, WhatIsDamagedIsToldWithItsLine) {
  const test::TempFolder folder;
  check_codec_errors(folder.path());  // there is none
  const std::string head = "step,elements,bytes,ratio," + error_table().header(), cells = "0,4,10,1.6,4.94e-324,1,0";
  const auto refusal = [&](const std::string& text) {
    test::write(folder.path() / "codec_errors.csv", text);
    return test::message_of([&] { check_codec_errors(folder.path()); });
  };
  EXPECT_EQ(refusal(head + cells + ",0,0,0,0,0,0,0,0\n1,2"), "");
  EXPECT_NE(refusal(head + cells + ",0,0,0,0,0,0,0\n").find("codec_errors.csv:2: it has 14 cells, not 15"),
            std::string::npos);
  EXPECT_NE(refusal(head + cells + ",0,0,0,x,0,0,0,0\n").find(":2: `x` is no number of the column"), std::string::npos);
  EXPECT_NE(refusal("no table\n").find("codec_errors.csv:1: its columns are not `step,"), std::string::npos);
}

}  // namespace
}  // namespace sotto
