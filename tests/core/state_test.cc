#include "sotto/core/state.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

struct Copied {
  std::vector<float> floats;
  std::vector<std::uint8_t> bytes;
  std::uint64_t number = 0;
  void visit_state(StateVisitor& visitor) {
    visitor.visit("floats", floats);
    visitor.visit("bytes", bytes);
    visitor.visit("number", number);
  }
};

TEST(StateCopy, GivesBackTheLastState) {
  Copied component{{1, 2}, {3}, 4};
  std::array<float, 2> borrowed{5, 6};
  StateCopy copy;
  component.visit_state(copy);
  copy.visit("borrowed", std::span<float>(borrowed));
  component = {{7, 8, 9}, {}, 10};
  copy.take();
  component.visit_state(copy);
  component = {};
  borrowed = {};
  copy.give();
  component.visit_state(copy);
  copy.visit("borrowed", std::span<float>(borrowed));
  EXPECT_EQ(component.floats, (std::vector<float>{7, 8, 9}));
  EXPECT_TRUE(component.bytes.empty());
  EXPECT_EQ(component.number, 10U);
  EXPECT_EQ(borrowed, (std::array<float, 2>{5, 6}));
}

TEST(StateCopy, RefusesWhatItHasNot) {
  StateCopy copy;
  std::array<float, 2> two{1, 2};
  copy.visit("two", std::span<float>(two));
  copy.give();
  std::array<float, 3> three{};
  EXPECT_THROW(copy.visit("two", std::span<float>(three)), FileError);
  std::uint64_t number = 1;
  EXPECT_THROW(copy.visit("number", number), FileError);
  EXPECT_EQ(number, 1U);
}

}  // namespace
}  // namespace sotto
