// tests/cli/test_tensorboard.py reads such files with TensorBoard's own reader.
#include "app/train/record/tensorboard.h"

#include <gtest/gtest.h>

#include <set>

#include "sotto/core/error.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::TempFolder;
using test::write;

TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);            // RFC 3720 and every catalogue of CRCs
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
}

TEST(EventFile, ALaterStartComesLaterByName) {
  const TempFolder folder;
  EXPECT_FALSE(EventFile::has_any(folder.path()));
  write(folder.path() / "events.out.tfevents.9999999990.host", "of a clock that was ahead");
  EXPECT_TRUE(EventFile::has_any(folder.path()));
  const EventFile first(folder.path(), 1), second(folder.path(), 1);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string().substr(0, 30));
  }
  EXPECT_EQ(names, (std::set<std::string>{"events.out.tfevents.9999999990", "events.out.tfevents.9999999991",
                                          "events.out.tfevents.9999999992"}));
}

TEST(EventFile, NamesTheFileThatCannotBeWritten) {
  const TempFolder folder;
  write(folder.path() / "file", "");
  EXPECT_THROW(EventFile(folder.path() / "file" / "events", 1), FileError);
}

}  // namespace
}  // namespace sotto
