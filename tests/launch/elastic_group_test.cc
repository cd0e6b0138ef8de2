#include "app/launch/elastic_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/group/membership_keys.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

namespace keys = membership_keys;

// Ranks that are started and killed in words only.
class Words final : public RankStarter {
 public:
  bool can_start(int id) override { return !unreachable.contains(id); }
  void start_rank(int id, std::uint64_t generation) override {
    if (full) throw Error("there is no process");
    started.emplace_back(id, generation);
  }
  void give_up_rank(int id) override { given_up.push_back(id); }

  std::set<int> unreachable;
  bool full = false;
  std::vector<std::pair<int, std::uint64_t>> started;
  std::vector<int> given_up;
};

// A group of four ranks, for which the test speaks to the launcher.
class ElasticGroupTest : public testing::Test {
 protected:
  ElasticGroup group(std::int64_t least, std::int64_t replacements = 0, OnFailure on_failure = OnFailure::go_on) {
    spec_.ranks = 4;
    spec_.least_ranks = least;
    spec_.replacements = replacements;
    spec_.on_failure = on_failure;
    return {spec_, store_, words_, console_};
  }
  // These ranks have left that generation.
  void report(std::uint64_t generation, const std::vector<int>& ids) {
    store_.set(keys::any_left(generation), "yes");
    for (const int id : ids) store_.set(keys::left(generation, id), "a peer is gone");
  }
  // The next generation has these ranks alone, to write a checkpoint.
  void expect_saved(ElasticGroup& group, std::uint64_t generation, const std::vector<int>& ids, const char* why) {
    report(generation, ids);
    group.look_after();
    EXPECT_EQ(members(generation + 1), fmt::format("{}", fmt::join(ids, " ")));
    EXPECT_EQ(store_.find(keys::failure(generation + 1)), why);
  }
  void beat(int id, const std::string& number) { store_.set(keys::beat(id), number); }
  std::string members(std::uint64_t generation) { return store_.find(keys::members(generation)).value_or("none"); }

  LaunchSpec spec_;
  StoreServer store_{plain_stores(), "127.0.0.1"};
  Words words_;
  Console console_;
};

TEST_F(ElasticGroupTest, TheOthersGoOnWithoutLostRanks) {
  auto group = this->group(2);
  group.begin(4);
  EXPECT_EQ(members(1), "0 1 2 3");
  EXPECT_TRUE(group.lose({2, 3}, "ranks 2, 3 are lost"));
  group.look_after();
  EXPECT_EQ(members(2), "none") << "nobody has left the first group";
  report(1, {0, 1});
  group.look_after();
  EXPECT_EQ(members(2), "0 1");
  group.leave(1);
  EXPECT_FALSE(group.lose({0}, "rank 0 is lost")) << "nobody is left to write what came of the run";
}

TEST_F(ElasticGroupTest, ALossAfterAllOthersEndedIsIgnored) {
  auto group = this->group(2, 1);
  group.begin(3);
  group.leave(0);
  group.leave(2);
  EXPECT_TRUE(group.lose({1}, "rank 1 is lost"));
  EXPECT_TRUE(group.over());
  EXPECT_TRUE(words_.started.empty());
}

TEST_F(ElasticGroupTest, ARankKilledAfterItIsDoneIsNotLost) {
  auto group = this->group(2, 1);
  group.begin(2);
  store_.set(keys::farewell(0), text_of(Farewell{}));
  EXPECT_TRUE(group.lose({0}, "rank 0 was killed")) << "it had written what came of the run";
  EXPECT_FALSE(group.over());
  group.leave(1);
  EXPECT_TRUE(group.over());
  EXPECT_TRUE(words_.started.empty());
}

TEST_F(ElasticGroupTest, FewerThanTheLeastSaveWhatTheyHave) {
  auto group = this->group(3);
  group.begin(4);
  EXPECT_TRUE(group.lose({2, 3}, "ranks 2, 3 are lost"));
  expect_saved(group, 1, {0, 1}, "ranks 2, 3 are lost; 2 ranks are left, and 3 are needed");
  EXPECT_TRUE(group.lose({1}, "rank 1 is lost")) << "the other one still can";
  EXPECT_FALSE(group.lose({0}, "rank 0 is lost"));
}

TEST_F(ElasticGroupTest, NewcomersAloneHaveNothingToSave) {
  auto group = this->group(2);
  group.begin(2);
  group.expect(2);
  EXPECT_FALSE(group.lose({0, 1}, "ranks 0, 1 are lost"));
}

TEST_F(ElasticGroupTest, StartsAsManyAnewAsItMay) {
  auto group = this->group(4, 1);
  group.begin(4);
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  EXPECT_EQ(words_.started, (std::vector<std::pair<int, std::uint64_t>>{{1, 2}}));
  report(1, {0, 2, 3});
  group.look_after();
  EXPECT_EQ(members(2), "0 1 2 3");
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  EXPECT_EQ(words_.started.size(), 1U);
  expect_saved(group, 2, {0, 2, 3}, "rank 1 was killed; 3 ranks are left, and 4 are needed");
}

TEST_F(ElasticGroupTest, StartsNoneWhereItsMachineIsGone) {
  auto group = this->group(4, 1);
  group.begin(4);
  words_.unreachable = {1};
  EXPECT_TRUE(group.lose({1}, "rank 1 is lost"));
  expect_saved(group, 1, {0, 2, 3}, "rank 1 is lost; 3 ranks are left, and 4 are needed");
}

TEST_F(ElasticGroupTest, NewcomersJoinTogetherWhenAllLive) {
  auto group = this->group(2);
  beat(3, "7");  // of a former life
  group.begin(2);
  group.expect(2);
  group.expect(3);
  beat(2, "1");
  group.look_after();
  EXPECT_FALSE(store_.find(keys::change(1)));
  beat(3, "1");
  group.look_after();
  EXPECT_TRUE(store_.find(keys::change(1)));
  report(1, {0, 1});
  group.look_after();
  EXPECT_EQ(members(2), "0 1 2 3");
}

TEST_F(ElasticGroupTest, ANewcomerThatIsLostWasNoMember) {
  auto group = this->group(2, 0, OnFailure::stop);
  group.begin(2);
  group.expect(2);
  EXPECT_TRUE(group.lose({2}, "rank 2 was killed"));
  EXPECT_FALSE(group.lose({1}, "rank 1 was killed"));
}

TEST_F(ElasticGroupTest, NeededNewcomersCountAsMembers) {
  auto group = this->group(4);
  group.begin(4);
  group.expect(4);
  group.expect(5);
  EXPECT_TRUE(group.lose({2, 3}, "ranks 2, 3 are lost")) << "two others come";
  EXPECT_TRUE(group.lose({4}, "rank 4 was killed"));
  expect_saved(group, 1, {0, 1}, "rank 4 was killed; 3 ranks are left, and 4 are needed");
}

TEST_F(ElasticGroupTest, DoesNotWaitForAFailedReplacement) {
  auto group = this->group(4, 1);
  group.begin(4);
  words_.full = true;
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  expect_saved(group, 1, {0, 2, 3}, "rank 1 was killed; 3 ranks are left, and 4 are needed");
}

TEST_F(ElasticGroupTest, AReplacementIsReplacedWhileOthersWait) {
  auto group = this->group(4, 2);
  group.begin(4);
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  EXPECT_EQ(words_.started.size(), 2U);
  report(1, {0, 2, 3});
  group.look_after();
  EXPECT_EQ(members(2), "0 1 2 3");
}

TEST_F(ElasticGroupTest, GivesUpNewcomersThatDoNotLive) {
  auto group = this->group(2);
  group.begin(2);
  group.expect(2);
  group.expect(3);
  beat(2, "1");
  group.look_after();
  EXPECT_TRUE(words_.given_up.empty());
  spec_.patience = std::chrono::seconds(0);
  group.look_after();
  group.look_after();
  EXPECT_EQ(words_.given_up, std::vector<int>{3}) << "once";
  EXPECT_TRUE(group.lose({3}, "rank 3 did not answer"));
  group.look_after();
  EXPECT_TRUE(store_.find(keys::change(1))) << "the other newcomer joins";
}

TEST_F(ElasticGroupTest, TheReasonIsThatOfAMember) {
  auto group = this->group(2, 0, OnFailure::stop);
  group.begin(2);
  group.expect(2);
  beat(2, "1");
  group.look_after();
  testing::internal::CaptureStderr();
  EXPECT_TRUE(group.lose({2}, "rank 2 was killed")) << "it waited";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "sotto: rank 2 was killed\n");
}

TEST_F(ElasticGroupTest, ReportsTheReasonWhileTheFirstRankWaits) {
  auto group = this->group(2, 1);
  group.begin(4);
  EXPECT_TRUE(group.lose({2}, "rank 2 was killed"));
  words_.unreachable = {2, 3};
  EXPECT_TRUE(group.lose({2, 3}, "ranks 2, 3 are lost"));
  report(1, {0, 1});
  testing::internal::CaptureStderr();
  group.look_after();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "sotto: rank 2 was killed, and is replaced; ranks 2, 3 are lost; continuing with ranks 0, 1\n");
}

TEST_F(ElasticGroupTest, TheOnlyRankIsStartedAnew) {
  auto group = this->group(1, 1);
  group.begin(1);
  EXPECT_TRUE(group.lose({0}, "rank 0 was killed"));
  EXPECT_EQ(words_.started, (std::vector<std::pair<int, std::uint64_t>>{{0, 2}}));
  group.look_after();
  EXPECT_EQ(members(2), "0");
  EXPECT_FALSE(group.lose({0}, "rank 0 was killed"));
}

TEST_F(ElasticGroupTest, KillsSilentMembersSoon) {
  auto group = this->group(2, 1);
  group.begin(4);
  beat(1, "7");
  beat(2, "7");
  EXPECT_TRUE(group.lose({1}, "rank 1 was killed"));
  report(1, {0});
  group.look_after();
  spec_.silence = std::chrono::seconds(0);
  group.look_after();
  EXPECT_EQ(words_.given_up, std::vector<int>{2}) << "rank 3 may be starting";
  report(1, {2, 3});
  group.look_after();
  EXPECT_EQ(members(2), "0 1 2 3");
  report(2, {0, 2, 3});
  group.look_after();
  EXPECT_EQ(words_.given_up, std::vector<int>{2}) << "rank 1 is starting: the heartbeat is its predecessor's";
  beat(1, "1");
  group.look_after();
  EXPECT_EQ(words_.given_up, (std::vector<int>{2, 1}));
}

TEST_F(ElasticGroupTest, KillsMembersThatDoNotLeave) {
  auto group = this->group(2);
  spec_.patience = std::chrono::seconds(0);
  group.begin(4);
  report(1, {0, 1, 3});
  group.look_after();
  group.look_after();
  EXPECT_EQ(words_.given_up, std::vector<int>{2}) << "once";
  EXPECT_TRUE(group.lose({2}, "rank 2 did not answer"));
  group.look_after();
  EXPECT_EQ(members(2), "0 1 3");
}

}  // namespace
}  // namespace sotto
