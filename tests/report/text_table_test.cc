#include "app/report/text_table.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

TEST(TextTable, Plain) {
  TextTable table({"codec", "bytes"});
  table.add({"none", "12"});
  table.add({"ef | topk", "3"});
  table.add({"bad"});
  EXPECT_EQ(table.plain(),
            "codec      bytes\n"
            "none          12\n"
            "ef | topk      3\n"
            "bad\n");
}

TEST(TextTable, MarkdownEscapesBars) {
  TextTable table({"codec", "bytes"});
  table.add({"ef | topk", "3"});
  EXPECT_EQ(table.markdown(),
            "| codec | bytes |\n"
            "| --- | ---: |\n"
            "| ef \\| topk | 3 |\n");
}

TEST(TextTable, BytesHaveThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 KB");
  EXPECT_EQ(bytes_text(12340), "12.3 KB");
  EXPECT_EQ(bytes_text(999499), "999 KB");
  EXPECT_EQ(bytes_text(999500), "1.00 MB");
  EXPECT_EQ(bytes_text(3.44e9), "3.44 GB");
}

TEST(TextTable, LettersOfSeveralBytesTakeOnePlace) {
  TextTable table({"codec", "loss"});
  table.add({"none", "1.0 ± 0.1"});
  table.add({"int8", "1.0"});
  EXPECT_EQ(table.plain(), "codec       loss\nnone   1.0 ± 0.1\nint8         1.0\n");
}

}  // namespace
}  // namespace sotto
