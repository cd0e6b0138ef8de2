#include "app/launch/host_message.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "app/launch/spawn.h"

namespace sotto {
namespace {

void give(const Pipe& pipe, const std::string& text) {
  ASSERT_EQ(write(pipe.write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(Messages, ArriveAsTheyWereSent) {
  const Pipe pipe = make_pipe();
  HostMessageReader reader(pipe.read.get());
  for (const std::string text : {"", "plain text", " blanks ", "two\nlines\r", "\\n is no \\ break", "\\"}) {
    give(pipe, to_line({"kind", text}));
    reader.read();
    const auto found = reader.next();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, "kind");
    EXPECT_EQ(found->text, text);
    EXPECT_FALSE(reader.next());
  }
}

TEST(Messages, ArriveInPieces) {
  Pipe pipe = make_pipe();
  HostMessageReader reader(pipe.read.get());
  reader.read();
  EXPECT_FALSE(reader.next());
  give(pipe, "stop 1");
  reader.read();
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.ended());
  give(pipe, "5\nalive\nhalf");
  pipe.write.reset();
  reader.read();
  EXPECT_EQ(reader.next()->text, "15");
  EXPECT_EQ(reader.next()->kind, "alive");
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.ended());
}

}  // namespace
}  // namespace sotto
