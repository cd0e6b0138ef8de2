#include "app/train/record/capture.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;
using test::message_of;
using test::TempFolder;

const Layout& two_tensors() {  // with padding between them
  static const Layout layout({{"a.weight", 0, {2, 3}}, {"b", 16, {4}}}, 20);
  return layout;
}

std::vector<float> numbers() {
  std::vector<float> values(20);
  for (const Segment& segment : two_tensors().segments()) {
    for (std::size_t i = 0; i < segment.numel(); ++i) values[segment.offset + i] = static_cast<float>(i) - 1.5F;
  }
  return values;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const CapturedFile& file : captured_files(folder)) names.push_back(file.path().filename().string());
  return names;
}

TEST(CapturedFile, ComesBackInEveryFormat) {
  const TempFolder temp;
  const CapturedFile file{temp.path(), true, 12, 3};
  file.write(two_tensors(), numbers());
  const GradientFile read = file.read();
  ASSERT_EQ(read.layout.segments().size(), 2U);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(read.layout.segments()[s].name, two_tensors().segments()[s].name);
    EXPECT_EQ(read.layout.segments()[s].shape, two_tensors().segments()[s].shape);
  }
  EXPECT_EQ(without_padding(read.layout, read.values), without_padding(two_tensors(), numbers()));
  const CapturedFile array{temp.path(), false, 12, std::nullopt, CaptureFormat::npy};
  array.write(two_tensors(), numbers());
  EXPECT_EQ(array.read().values, without_padding(two_tensors(), numbers()));
  EXPECT_EQ(array.read().layout.segments().front().name, "values");
}

TEST(CapturedFile, IsKnownByItsName) {
  const TempFolder temp;
  for (const char* name : {"gradient-000100.safetensors", "gradient-1000000-r12.npy", "memory-000100-r2.safetensors",
                           "gradient-100.safetensors", "gradient-000100-r.safetensors",
                           "gradient-000100-r-1.safetensors", "gradient-.safetensors", "memory-000100.txt",
                           "gradient-000100.safetensors.sotto-tmp-1", "other-000100.safetensors"}) {
    test::write(temp.path() / name, "");
  }
  EXPECT_EQ(names_in(temp.path()),
            (std::vector<std::string>{"gradient-000100.safetensors", "memory-000100-r2.safetensors",
                                      "gradient-1000000-r12.npy"}));
  EXPECT_NE(message_of([&] { captured_files(temp.path() / "missing"); }).find("missing"), std::string::npos);
}

TEST(Capture, StopsAtItsLimitAndKeepsWhatItHas) {
  const TempFolder temp;
  const fs::path folder = temp.path() / "folder";
  CapturePlan plan =
      read_capture("capture", "every=2,dir=" + folder.string() + ",ranks=all,memory=true,format=npy,limit=1MB");
  EXPECT_EQ(plan.limit, 1'000'000U);
  const Layout layout({{"w", 0, {1000}}}, 1000);
  const std::vector<float> values(1000, 1.0F);
  plan.limit = 2 * 2 * (4 * 1000 + 2000);  // of each of two ranks: for gradient and memory of one step, with headers
  Capture one(plan, 1, 2);
  one.write(0, layout, values, values);
  EXPECT_EQ(one.take_remark(), "");
  one.write(2, layout, values, values);
  EXPECT_NE(one.take_remark().find("no more gradients from step 2 on"), std::string::npos);
  EXPECT_EQ(one.take_remark(), "") << "once";
  one.write(4, layout, values, values);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"gradient-000000-r1.npy", "memory-000000-r1.npy"}));
  Capture resumed(plan, 1, 2);
  resumed.write(0, layout, values, values);  // the same step again takes no more room
  EXPECT_EQ(resumed.take_remark(), "");
  resumed.write(2, layout, values, values);
  EXPECT_NE(resumed.take_remark(), "") << "what was there counts";
  Capture other(plan, 0, 2);
  other.write(2, layout, values, {});
  EXPECT_EQ(names_in(folder).back(), "gradient-000002-r0.npy") << "each rank has its own share";
}

TEST(Capture, NeverWritesMoreThanIsForeseen) {
  const TempFolder temp;
  std::vector<Segment> segments;
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i, at += 16) segments.push_back({"a.rather.long.name." + std::to_string(i), at, {1, 1, 3}});
  const Layout layout(std::move(segments), at);
  std::vector<float> values(at);
  unsigned state = 1;
  for (float& value : values) value = static_cast<float>(state = state * 1664525U + 1013904223U);  // does not compress
  for (const CaptureFormat format : {CaptureFormat::npy, CaptureFormat::safetensors}) {
    const CapturedFile file{temp.path(), false, 1, std::nullopt, format};
    file.write(layout, values);
    EXPECT_LE(fs::file_size(file.path()), most_captured_bytes(layout));
  }
}

TEST(Capture, SaysWhatIsInItsWay) {
  const TempFolder temp;
  test::write(temp.path() / "folder", "in the way");
  Capture capture(read_capture("capture", "every=2,dir=" + (temp.path() / "folder").string()), 0, 1);
  EXPECT_NE(message_of([&] { capture.write(0, two_tensors(), numbers(), {}); }).find("folder"), std::string::npos);
}

}  // namespace
}  // namespace sotto
