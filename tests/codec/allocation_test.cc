// A step after the first allocates nothing.
#include <gtest/gtest.h>

#include <array>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"
#include "tests/support/allocation_counter.h"

namespace sotto::testing {
namespace {

TEST(AllocationCounter, Counts) {
  const std::size_t before = allocation_count();
  const auto volatile_size = std::make_unique<std::vector<float>>(10);
  EXPECT_GE(allocation_count(), before + 2);
  EXPECT_EQ(volatile_size->size(), 10U);
}

void expect_no_allocation_after_the_first_step(const std::string& expression,
                                               const std::shared_ptr<ThreadPool>& pool = nullptr) {
  const auto codec = make_codec(read_stages(expression), pool);
  const auto opened = codec->make_opened();
  const Layout layout = mixed_layout();
  // The first inputs select hardly any elements, the last ones all that can be selected.
  std::array<std::vector<float>, 4> inputs{std::vector<float>(layout.size()), gaussian(layout, 1, 1e-3F),
                                           gaussian(layout, 2), std::vector<float>(layout.size(), 5.0F)};
  layout.clear_padding(inputs[3]);
  const std::array<Range, 2> parts{Range{0, 112}, Range{112, layout.size()}};
  std::array<Message, 2> messages;
  std::vector<float> decoded(layout.size());
  std::vector<float> agreed(codec->agreed_count(layout));
  Bucket out{decoded, &layout, 0};

  std::size_t after_first = 0;
  for (std::uint32_t step = 0; step < inputs.size(); ++step) {
    codec->propose({inputs[step], &layout, 0}, agreed);
    codec->encode({inputs[step], &layout, 0}, {.step = step}, agreed, parts, messages);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const MessageView view = MessageView::parse(messages[i].bytes());
      view.expect({.step = step, .part = static_cast<std::uint16_t>(i)});
      opened->open(view, layout, parts[i]);
      opened->add_to(out, 1);
    }
    if (step == 0) after_first = allocation_count();
  }
  EXPECT_EQ(allocation_count(), after_first);
}

TEST(Steps, AfterTheFirstAllocateNothing) {
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    expect_no_allocation_after_the_first_step(expression);
  }
}

TEST(Steps, OnSeveralThreadsAllocateNothing) {
  const auto pool = std::make_shared<ThreadPool>(3, 8);
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    expect_no_allocation_after_the_first_step(expression, pool);
  }
}

TEST(Steps, OfLinearCodecsAllocateNothing) {
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    const auto codec = make_codec(read_stages(expression));
    if (!codec->traits().linear_type) continue;
    const Layout layout = mixed_layout();
    std::vector<float> values = gaussian(layout, 3);
    std::vector<std::byte> linear(codec->linear_count(layout) * size_of(*codec->traits().linear_type));
    Bucket bucket{values, &layout, 0};
    std::size_t after_first = 0;
    for (std::uint32_t step = 0; step < 4; ++step) {
      codec->to_linear(bucket, 0.5F, {.step = step}, linear);
      codec->from_linear(linear, 2, {.step = step}, bucket);
      if (step == 0) after_first = allocation_count();
    }
    EXPECT_EQ(allocation_count(), after_first);
  }
}

}  // namespace
}  // namespace sotto::testing
