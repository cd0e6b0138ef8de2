// clear_chosen() clears the elements that a selection sent, but not the elements of segments that it always sends
// whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"
#include "tests/support/opened.h"

namespace sotto::testing {
namespace {

// Whether each element was chosen for this message. Another instance than the encoder opens it.
std::vector<bool> chosen(const Codec& codec, const Input& input, std::span<const std::byte> message) {
  std::vector<float> marks(input.values.size(), 1.0F);
  Bucket out{marks, &input.layout, 0};
  test::opened(codec, MessageView::parse(message), input.layout, {0, marks.size()})->clear_chosen(out);
  std::vector<bool> found;
  for (const float mark : marks) {
    EXPECT_TRUE(mark == 0.0F || mark == 1.0F);
    found.push_back(mark == 0.0F);
  }
  return found;
}

TEST(Chosen, IsAllThatASelectionSentAndNothingElse) {
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    const auto codec = make_codec(read_stages(expression)), other = make_codec(read_stages(expression));
    const bool chooses = selects(expression) && !transforms(expression);
    for (const Input& input : all_inputs()) {
      if (!fits(expression, input)) continue;
      const auto message = encode(*codec, input);
      const auto found = chosen(*other, input, message);
      if (!chooses) {
        EXPECT_EQ(std::ranges::count(found, true), 0) << input.name;
        continue;
      }
      const auto decoded = decode(*codec, input, message);
      std::vector<bool> in_segments(found.size());
      for (const Segment& segment : input.layout.segments()) {
        const Range range = segment.range();
        bool any = false;
        for (std::size_t i = range.begin; i < range.end; ++i) any = any || found[i];
        for (std::size_t i = range.begin; i < range.end; ++i) {
          if (any) {
            EXPECT_TRUE(found[i] || decoded[i] == 0) << input.name << " " << i;
          }
          in_segments[i] = found[i];
        }
      }
      EXPECT_EQ(found, in_segments) << input.name << ": padding";
    }
  }
}

TEST(Chosen, IsTheSameOfAMessageAndOfItsLinearForm) {
  const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 50)};
  for (const std::string& expression : all_codecs()) {
    const auto codec = make_codec(read_stages(expression));
    if (!codec->traits().linear_type) continue;
    const auto message = encode(*codec, input, {.seed = 51, .rank = 1, .step = 7});
    std::vector<float> marks(input.values.size(), 1.0F);
    Bucket out{marks, &input.layout, 0};
    codec->clear_chosen({.seed = 51, .rank = 2, .step = 7}, out);
    const auto found = chosen(*codec, input, message);
    for (std::size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(marks[i] == 0, found[i]) << expression << ", " << i;
  }
}

TEST(Chosen, OfTopKAreTheLargestEvenWhereTheyBecameZero) {
  const Layout layout({{"matrix", 0, {2, 4}}, {"rest", 8, {1, 4}}}, 12);
  const Input input{"few", layout, {1, -8, 2, 7, 0.5F, 0, 0, 3, 0.25F, 0, 9, 0}};
  for (const char* expression : {"topk(0.25)", "topk(0.25) | f16", "topk(0.25) | qsgd(bits=1)"}) {
    const auto codec = make_codec(read_stages(expression));
    const std::vector<bool> wanted{false, true, false, true, false, false, false, false, false, false, true, false};
    for (std::uint32_t step = 0; step < 8; ++step) {  // in some steps, qsgd of one bit sends 7 (of at most 8) as 0
      EXPECT_EQ(chosen(*codec, input, encode(*codec, input, {.step = step})), wanted) << expression;
    }
  }
}

TEST(Chosen, IsNothingOfASegmentThatIsAlwaysSentWhole) {
  const auto codec = make_codec(read_stages("topk(0.1, dense=3)"));
  const Layout layout({{"bias", 0, {3}}, {"matrix", 3, {2, 3}}, {"scale", 9, {1}}}, 10);
  const Input input{"mixed", layout, {1, 2, 3, 4, -9, 5, 6, 7, 8, 10}};
  const auto message = encode(*codec, input);
  EXPECT_EQ(decode(*codec, input, message), (std::vector<float>{1, 2, 3, 0, -9, 0, 0, 0, 0, 10}));
  std::vector<bool> wanted(10);
  wanted[4] = true;
  EXPECT_EQ(chosen(*codec, input, message), wanted);
}

// Otherwise masking would stop all momentum in every step of a warm-up that begins with a ratio of 1.
TEST(Chosen, IsNothingOfARatioOfOne) {
  const Layout layout({{"matrix", 0, {40, 500}}, {"vector", 20000, {3000}}}, 23000);
  const Input input{"gaussian", layout, gaussian(layout, 52)};
  for (const char* expression :
       {"topk(1)", "topk(1, scope=bucket) | qsgd(bits=4)", "sampled_topk(1)", "sampled_topk(1, scope=bucket)",
        "randomk(1)", "randomk(1, shared=false)", "block(7, 1)", "block(7, 1, random)", "threshold(drop=0)"}) {
    SCOPED_TRACE(expression);
    const auto codec = make_codec(read_stages(expression));
    const auto message = encode(*codec, input);
    const auto found = chosen(*codec, input, message);
    EXPECT_EQ(std::ranges::count(found, true), 0);
    if (std::string(expression).ends_with("qsgd(bits=4)")) continue;
    EXPECT_EQ(decode(*codec, input, message), input.values);
  }
}

}  // namespace
}  // namespace sotto::testing
