#include "sotto/comm/group/generations.h"

#include <gtest/gtest.h>

namespace sotto {
namespace {

using Ids = std::vector<int>;

TEST(Generations, BeginWhenEnoughRanksHaveCome) {
  Generations group(2, 3);
  EXPECT_FALSE(group.next());
  group.come(0);
  EXPECT_FALSE(group.next());
  group.come(1);
  EXPECT_TRUE(group.next());
  EXPECT_EQ(group.number(), 1U);
  EXPECT_EQ(group.members(), (Ids{0, 1}));
  EXPECT_EQ(group.reason(), "ranks 0, 1 have come");
  EXPECT_FALSE(group.next());
  EXPECT_FALSE(group.wants_change());
}

TEST(Generations, MakeRoomForThoseThatWait) {
  Generations group(1, 3, 4, {0, 1});
  group.come(2);
  group.come(3);
  EXPECT_TRUE(group.wants_change());
  EXPECT_FALSE(group.next()) << "its members have not left it";
  group.report(1, "asked to");
  EXPECT_FALSE(group.wants_change()) << "it changes";
  EXPECT_EQ(group.awaited(), Ids{0});
  EXPECT_FALSE(group.next());
  group.report(0, "asked to");
  EXPECT_TRUE(group.next());
  EXPECT_EQ(group.number(), 5U);
  EXPECT_EQ(group.members(), (Ids{0, 1, 2})) << "members stay, and one finds room";
  EXPECT_EQ(group.waiting(), Ids{3});
  EXPECT_FALSE(group.wants_change()) << "it is full";
}

TEST(Generations, GoOnWithoutTheLost) {
  Generations group(2, 3, 0, {0, 1, 2});
  group.lose(1, "rank 1 was killed");
  ASSERT_TRUE(group.changing());
  group.report(0, "a connection broke");
  EXPECT_FALSE(group.next());
  group.report(2, "a connection broke");
  EXPECT_TRUE(group.next());
  EXPECT_EQ(group.members(), (Ids{0, 2}));
  EXPECT_EQ(group.reason(), "rank 1 was killed");
  EXPECT_FALSE(group.changing());
  group.lose(2, "rank 2 was killed");
  group.report(0, "a connection broke");
  EXPECT_FALSE(group.next()) << "one is too few";
  group.come(3);
  EXPECT_TRUE(group.next());
  EXPECT_EQ(group.members(), (Ids{0, 3}));
}

TEST(Generations, OneThatIsLostBeforeItIsAMemberChangesNothing) {
  Generations group(1, 2, 1, {0});
  group.come(1);
  group.lose(1, "killed");
  EXPECT_FALSE(group.changing());
  EXPECT_FALSE(group.wants_change());
  group.lose(7, "unknown");
  EXPECT_EQ(group.there(), Ids{0});
}

TEST(Generations, AreOverWhenTheLastMemberHasComeToTheEnd) {
  Generations group(1, 3, 1, {0, 1});
  group.come(2);
  group.leave(0);
  EXPECT_FALSE(group.over());
  group.leave(1);
  EXPECT_TRUE(group.over());
  EXPECT_FALSE(group.next());
}

TEST(Generations, FinishTheRunHoweverFewAreLeft) {
  Generations group(3, 3, 1, {0, 1, 2});
  group.leave(0);
  group.lose(2, "rank 2 was killed");
  group.report(1, "a connection broke");
  EXPECT_TRUE(group.next()) << "no other rank may come any more";
  EXPECT_EQ(group.members(), Ids{1});
  group.leave(1);
  EXPECT_TRUE(group.over());
}

TEST(Generations, WhoseMembersAreAllLostGoOnWithNewRanks) {
  Generations group(1, 2, 1, {0, 1});
  group.lose(0, "killed");
  group.lose(1, "killed, too");
  EXPECT_FALSE(group.over());
  EXPECT_FALSE(group.next()) << "nobody is there";
  group.come(2);
  EXPECT_TRUE(group.next());
  EXPECT_EQ(group.members(), Ids{2});
  EXPECT_EQ(group.reason(), "killed; killed, too");
}

TEST(Generations, ThatChangeInVainEndTheJob) {
  Generations group(2, 2, 0, {0, 1});
  for (int i = 0; i < 5; ++i) {
    group.report(0, "the link is cut");
    group.report(1, "the link is cut");
    ASSERT_TRUE(group.next());
  }
  group.report(0, "the link is cut");
  group.report(1, "the link is cut");
  EXPECT_FALSE(group.next());
  EXPECT_EQ(group.no_progress(), "the link is cut; no rank has ended, but they lost each other 5 times");
}

TEST(Generations, ThatMoveAreNotInVain) {
  Generations group(2, 2, 0, {0, 1});
  for (int i = 0; i < 20; ++i) {
    group.report(0, "the link is cut", i % 5 == 0);
    group.report(1, "the link is cut");
    ASSERT_TRUE(group.next()) << i;
  }
}

TEST(Generations, EndWithOneThatSavesAfterAFailure) {
  Generations group(3, 4, 0, {0, 1, 2}, OnFailure::checkpoint);
  group.come(3);
  group.lose(1, "rank 1 was killed");
  group.report(0, "a connection broke");
  EXPECT_FALSE(group.next());
  group.report(2, "a connection broke");
  EXPECT_TRUE(group.next()) << "however few are left";
  EXPECT_EQ(group.members(), (Ids{0, 2})) << "nobody joins for a checkpoint";
  EXPECT_EQ(group.failure(), "rank 1 was killed");
  group.lose(2, "rank 2 was killed, too");
  group.report(0, "a connection broke");
  EXPECT_TRUE(group.next()) << "the last one saves";
  EXPECT_EQ(group.failure(), "rank 1 was killed") << "what ended the job";
  group.lose(0, "rank 0 has ended");
  EXPECT_FALSE(group.next());
}

TEST(Generations, EndAtOnceAfterAFailure) {
  Generations group(1, 3, 0, {0, 1, 2}, OnFailure::stop);
  group.withdraw(2, "it was asked to end");
  group.report(0, "the group changes");
  group.report(1, "the group changes");
  EXPECT_TRUE(group.next()) << "that is no failure";
  EXPECT_EQ(group.failure(), "");
  group.lose(1, "rank 1 was killed");
  group.report(0, "a connection broke");
  EXPECT_FALSE(group.next());
  EXPECT_EQ(group.failure(), "rank 1 was killed");
}

TEST(Generations, AfterAStopThoseThatAreLeftOnlySave) {
  Generations generations(3, 4);
  for (const int id : {0, 1, 2}) generations.come(id);
  ASSERT_TRUE(generations.next());
  generations.stop("the job was stopped");
  EXPECT_FALSE(generations.changing()) << "they agree on the end by themselves";
  generations.come(3);
  generations.lose(1, "rank 1 was killed");
  for (const int id : {0, 2}) generations.report(id, "lost rank 1");
  ASSERT_TRUE(generations.next()) << "however few are left";
  EXPECT_EQ(generations.members(), (std::vector{0, 2})) << "nobody is taken in";
  EXPECT_EQ(generations.failure(), "the job was stopped; rank 1 was killed");
}

}  // namespace
}  // namespace sotto
