#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>

#include "app/cli/commands.h"

namespace sotto {
namespace {

template <class Action>
std::string printed(const Action& action) {
  testing::internal::CaptureStdout();
  const int status = action();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0) << text;
  return text;
}

TEST(CodecDescribe, SaysSomethingOfEverythingInTheList) {
  std::istringstream list(printed([] { return list_codecs({}); }));
  std::string line, name, kind;
  std::getline(list, line);  // the names of the columns
  int described = 0;
  for (; std::getline(list, line); ++described) {
    std::istringstream(line) >> name >> kind;
    const std::string text = printed([&] { return describe_codec(std::array{name}); });
    EXPECT_NE(text.find(name + " (" + kind + ")"), std::string::npos) << text;
  }
  EXPECT_GT(described, 50);
}

}  // namespace
}  // namespace sotto
