#include "sotto/train/codec_error_csv.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace sotto
