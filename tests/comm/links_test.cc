// How emulated links are written, and when messages arrive over them.
#include "sotto/comm/emulated/links.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <string>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

class LinksFile : public testing::Test {
 protected:
  ~LinksFile() override { std::filesystem::remove(path_); }
  Links read(const std::string& text, int size = 4) {
    write_file_atomic(path_, text);
    return parse_links("link", path_.string(), size);
  }
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      const std::string begin = "link " + path_.string() + ":";
      EXPECT_EQ(what.rfind(begin, 0), 0U) << what;
      return what.substr(std::min(what.size(), begin.size()));
    }
    return "no error";
  }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      ("links" + std::to_string(::getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml");
};

TEST_F(LinksFile, SaysWhatDiffers) {
  const Links links = read(R"(
rate = "100mbit"
latency = "5ms"
jitter = "1ms"
seed = 7

[[rank]]
rank = 2
egress = "10mbit"
compute = 3
delay = "20ms"

[[pair]]
from = 0
to = 1
latency = "0ms"
rate = "1gbit"
)");
  EXPECT_EQ(links.seed, 7U);
  EXPECT_DOUBLE_EQ(links.rank(0).egress, 100e6);
  EXPECT_DOUBLE_EQ(links.rank(0).compute, 1);
  EXPECT_DOUBLE_EQ(links.rank(2).egress, 10e6);
  EXPECT_DOUBLE_EQ(links.rank(2).ingress, 100e6);
  EXPECT_DOUBLE_EQ(links.rank(2).compute, 3);
  EXPECT_DOUBLE_EQ(links.rank(2).delay, 0.02);
  EXPECT_DOUBLE_EQ(links.pair(0, 1).latency, 0);
  EXPECT_DOUBLE_EQ(links.pair(0, 1).jitter, 1e-3);
  EXPECT_DOUBLE_EQ(links.pair(0, 1).bits_per_second, 1e9);
  EXPECT_DOUBLE_EQ(links.pair(1, 0).latency, 5e-3);
  EXPECT_DOUBLE_EQ(links.pair(1, 0).bits_per_second, 0);
  EXPECT_NE(links.file.find("[[rank]]"), std::string::npos);
  EXPECT_DOUBLE_EQ(read("").rank(3).egress, 0);
}

TEST_F(LinksFile, ErrorsNameLineAndKey) {
  EXPECT_EQ(error_of("rate = \"fast\""),
            "1: rate: `fast` does not begin with a number above 0; write a rate, as in \"100mbit\"");
  EXPECT_EQ(error_of("rate = \"5ms\""), "1: rate: `5ms` is none; write a rate, as in \"100mbit\"");
  EXPECT_EQ(error_of("rate = 100"), "1: rate must be text in quotes, as \"100mbit\"");
  EXPECT_EQ(error_of("latency = \"-1ms\""),
            "1: latency: `-1ms` does not begin with a number above 0; write a time, as in \"5ms\"");
  EXPECT_NE(error_of("ratee = \"1mbit\"").find("ratee"), std::string::npos);
  EXPECT_NE(error_of("rate = ").find("1:"), std::string::npos);
  EXPECT_EQ(error_of("\n[[rank]]\ncompute = 2"), "2: rank is missing: it says which rank this is about");
  EXPECT_EQ(error_of("\n[[rank]]\nrank = 4"), "3: rank: there is no rank 4; ranks are 0 to 3");
  EXPECT_EQ(error_of("[[rank]]\nrank = -1"), "2: rank: there is no rank -1; ranks are 0 to 3");
  EXPECT_EQ(error_of("[[rank]]\nrank = 1.0"), "2: rank must be the number of a rank");
  EXPECT_EQ(error_of("[[rank]]\nrank = 1\ncompute = 0.5"), "3: compute: must be from 1 to 1000");
  EXPECT_EQ(error_of("[[rank]]\nrank = 1\ncompute = nan"), "3: compute: must be from 1 to 1000");
  EXPECT_EQ(error_of("[[rank]]\nrank = 1\n[[rank]]\nrank = 1"), "4: rank: rank 1 is there twice");
  EXPECT_EQ(error_of("[[pair]]\nfrom = 1\nto = 1"), "3: to: rank 1 has no link to itself");
  EXPECT_EQ(error_of("[[pair]]\nfrom = 1\nto = 2\n[[pair]]\nfrom = 1\nto = 2"),
            "5: from: the link from 1 to 2 is there twice");
  EXPECT_EQ(error_of("[rank]\nrank = 1"), "1: rank: write it as [[rank]], with what belongs to it below");
  EXPECT_EQ(error_of("seed = -1"), "1: seed: must be 0 or more");
}

TEST(Links, AShortFormIsForAll) {
  const Links links = parse_links("link", "100mbit,5ms", 2);
  EXPECT_DOUBLE_EQ(links.rank(1).ingress, 100e6);
  EXPECT_DOUBLE_EQ(links.pair(0, 1).latency, 5e-3);
  EXPECT_TRUE(links.file.empty());
  EXPECT_THROW(parse_links("link", "no such file.toml", 2), FileError);
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

TEST(Link, ADirectionHasARateOfItsOwn) {
  Links links{{8e6, 0.01}};  // a byte takes 1 us
  links.pairs[{0, 1}] = {4e6, 0.03};
  Link link(links, 0, 3);
  const auto now = Clock::now();
  EXPECT_NEAR(seconds_between(now, link.send(1, 10000, now)), 0.05, 1e-6);
  EXPECT_NEAR(seconds_between(now, link.send(2, 10000, now)), 0.03, 1e-6);  // not delayed by the link to 1
  EXPECT_NEAR(seconds_between(now, link.send(1, 10000, now)), 0.07, 1e-6);
}

TEST(Link, ASlowIngressTakesAFastMessageAsItCan) {
  Links links{{8e6, 0}};
  links.ranks[1] = {8e6, 2e6};
  Link link(links, 1, 2);
  const auto now = Clock::now();
  // The first byte arrived 10 ms ago; the last one arrives 30 ms later.
  EXPECT_NEAR(seconds_between(now, link.receive(0, 10000, now)), 0.03, 1e-6);
  EXPECT_NEAR(seconds_between(now, link.receive(0, 10000, now)), 0.07, 1e-6);
}

TEST(Link, AShortMessageDelaysALongOneByItsOwnTimeOnly) {
  Link link(Links{{8e6, 0}}, 0, 4);
  const auto now = Clock::now();
  EXPECT_NEAR(seconds_between(now, link.receive(1, 100, now)), 0, 1e-6);
  EXPECT_NEAR(seconds_between(now, link.receive(2, 50000, now + 40ms)), 0.0401, 1e-6);  // on its way since -10 ms
  EXPECT_NEAR(seconds_between(now, link.receive(3, 10000, now + 40ms)), 0.0501, 1e-6);  // nothing was free since 30 ms
  EXPECT_NEAR(seconds_between(now, link.receive(3, 100, now + 60ms)), 0.06, 1e-6);
}

TEST(Link, MessagesThatTouchAreReceivedInAnyOrder) {
  Link link(Links{{8e6, 0}}, 0, 3);
  const auto now = Clock::now();
  EXPECT_NEAR(seconds_between(now, link.receive(1, 20000, now + 30ms)), 0.03, 1e-6);
  EXPECT_NEAR(seconds_between(now, link.receive(2, 10000, now + 10ms)), 0.01, 1e-6);  // fits exactly before it
}

TEST(Link, ForgettingOldMessagesGivesNoTimeAway) {
  Link link(Links{{8e6, 0}}, 0, 3);
  const auto now = Clock::now();
  for (int i = 100; i > 0; --i) link.receive(1, 10, now + i * 1ms);  // all apart, the newest first
  EXPECT_LT(seconds_between(now, link.receive(2, 10, now + 200ms)), 0.2 + 1e-6);
  for (int i = 1; i < 3; ++i) EXPECT_GT(seconds_between(now, link.receive(2, 10000, now + 10ms)), 0.01 * i - 1e-6);
}

TEST(Link, MessagesShareTheIngress) {
  Link link(Links{{8e6, 0}}, 0, 9);
  const auto now = Clock::now();
  auto last = now;
  for (int from = 1; from < 9; ++from) last = std::max(last, link.receive(from, 10000, now + from * 1ms));
  EXPECT_NEAR(seconds_between(now, last), 0.001 - 0.01 + 8 * 0.01, 1e-6);  // from the first byte on it is never idle
}

TEST(Link, JitterIsThatOfTheSeedAndNeverReorders) {
  Links links{{0, 0.01, 0.1}};
  Link one(links, 0, 2), same(links, 0, 2);
  links.seed = 2;
  Link other(links, 0, 2);
  const auto now = Clock::now();
  auto last = now;
  bool differs = false;
  double most = 0;
  for (int i = 0; i < 100; ++i) {
    const auto begin = now + i * 1ms;
    const auto arrived = one.send(1, 10, begin);
    EXPECT_EQ(arrived, same.send(1, 10, begin));
    differs = differs || arrived != other.send(1, 10, begin);
    EXPECT_GE(arrived, last);
    EXPECT_GE(seconds_between(begin, arrived), 0.01 - 1e-9);
    EXPECT_LE(seconds_between(begin, arrived), 0.11 + 1e-9);
    most = std::max(most, seconds_between(begin, arrived));
    last = arrived;
  }
  EXPECT_TRUE(differs);
  EXPECT_GT(most, 0.09);
}

}  // namespace
}  // namespace sotto
