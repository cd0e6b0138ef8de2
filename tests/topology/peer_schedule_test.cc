#include "sotto/topology/peer_schedule.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using test::message_of;

TEST(PeerSchedules, ChangeTheNumberOfPeersFromAnEpochOn) {
  const auto phases = read_peer_schedule("test", "0:1,3:2,10:4", test::topology("5"), 8);
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].first, 0U);
  EXPECT_EQ(phases[0].topology.text(), "exponential(peers=1)");
  EXPECT_EQ(phases[1].first, 3U);
  EXPECT_EQ(phases[1].topology.text(), "exponential(peers=2)");
  EXPECT_EQ(phases[2].first, 10U);
  EXPECT_EQ(phases[2].topology.text(), "exponential(peers=4)");
  EXPECT_EQ(read_peer_schedule("test", "0:3", test::topology("torus(rows=2)"), 8)[0].topology.text(),
            "torus(rows=2, peers=3)");
  EXPECT_EQ(by_steps(phases, {100})[2].first, 1000U);
  EXPECT_EQ(by_steps(phases, {5, 3})[2].first, 17U) << "of three of an epoch's five batches";
  EXPECT_EQ(by_steps(phases, {UINT64_MAX / 2})[2].first, UINT64_MAX) << "never";
}

TEST(PeerSchedules, SayWhatIsWrong) {
  const auto why = [](const char* schedule, const char* topology = "exponential") {
    return message_of([&] { read_peer_schedule("peers-per-step", schedule, test::topology(topology), 8); });
  };
  for (const char* bad : {"", "1", "0", "0:", ":1", "0:0", "1:1", "0:1,", "0:1,0:2", "0:1,5:2,4:3", "0:1;2:3", "0:-1",
                          "0:1 ", "0:99999999999999999999", "0:1,1000000000001:2"}) {
    EXPECT_NE(why(bad).find("as in 0:1,10:2"), std::string::npos) << bad << ": " << why(bad);
    EXPECT_EQ(why(bad).find("peers-per-step"), 0U) << why(bad);
  }
  EXPECT_NE(why("0:1,1:2", "star").find("always has the same peers"), std::string::npos);
  EXPECT_NE(why("0:1,1:99", "exponential").find("each has 7 peers, not 99"), std::string::npos)
      << why("0:99", "exponential");
  EXPECT_NE(why("0:1", "rign").find("did you mean `ring`"), std::string::npos);
}

}  // namespace
}  // namespace sotto
