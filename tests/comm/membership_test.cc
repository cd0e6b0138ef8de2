#include "sotto/comm/membership.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "sotto/comm/c10d_reason.h"
#include "sotto/comm/heartbeat.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/membership_keys.h"
#include "sotto/comm/tcp_places.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

void wait_until(const std::function<bool()>& condition) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(Clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A coordinator's store, and ranks that know where it is.
class Membership : public testing::Test {
 protected:
  World world(int id = 0, std::uint64_t generation = 1) const {
    World world;
    world.elastic = world.coordinated = true;
    world.port = store_.port();
    world.id = id;
    world.generation = generation;
    return world;
  }

  // As a rank of a first generation of two.
  std::unique_ptr<Meeting> meet(int rank, const Stop& stop = {}) const {
    World member = world();
    member.rank = rank;
    member.size = 2;
    member.prefix = "sotto/1";
    return std::make_unique<Meeting>(member, "tcp", std::chrono::seconds(60), stop);
  }

  StoreServer store_{"127.0.0.1"};
  Roster roster_{store_};
  Generations generations_{1, 3};
};

TEST_F(Membership, GivesOutIdsFromTheNextOneOn) {
  roster_.open({.least = 2, .most = 3}, 5);
  const JobSize size = size_of_job(world());
  EXPECT_EQ(size.least, 2U);
  EXPECT_EQ(size.most, 3U);
  EXPECT_EQ(join_job(world()), 5);
  EXPECT_EQ(join_job(world()), 6);
  EXPECT_EQ(roster_.joined(), 7);
}

TEST_F(Membership, EachRankLearnsItsPlace) {
  for (const int id : {7, 2, 4}) generations_.come(id);
  ASSERT_TRUE(generations_.next());
  std::vector<std::thread> ranks;
  std::vector<std::optional<World>> places(3);
  for (std::size_t i = 0; i < 3; ++i) {
    ranks.emplace_back([&, i] { places[i] = join_generation(world(std::vector{2, 4, 7}[i]), {}); });
  }
  roster_.announce(generations_);
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(places[i]);
    EXPECT_EQ(places[i]->rank, static_cast<int>(i));
    EXPECT_EQ(places[i]->size, 3);
    EXPECT_EQ(places[i]->generation, 1U);
    EXPECT_EQ(places[i]->prefix, "sotto/1");
  }
}

TEST_F(Membership, OneThatIsGivenUpWhileItWaitsIsTold) {
  roster_.open({.least = 2, .most = 3}, 0);
  roster_.turn_away(0, "rank 0 has been silent for 30 s");
  try {
    join_generation(world(0), {});
    ADD_FAILURE() << "it has no place";
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "rank 0 has been silent for 30 s");
  }
}

TEST_F(Membership, MembersLeaveTheirGroupAndLearnOfTheNext) {
  for (const int id : {0, 1, 2}) generations_.come(id);
  ASSERT_TRUE(generations_.next());
  roster_.announce(generations_);
  std::optional<World> next;
  std::string left_out;
  std::thread first([&] { next = next_generation(world(0), "rank 1 is gone", false, {}); });
  std::thread third([&] {
    try {
      next_generation(world(2), "rank 1 is gone", false, {});
    } catch (const CommError& error) {
      left_out = error.what();
    }
  });
  wait_until([&] {
    roster_.hear(generations_);
    return generations_.awaited() == std::vector{1};
  });
  generations_.lose(1, "killed");
  generations_.lose(2, "given up");
  ASSERT_TRUE(generations_.next());
  roster_.announce(generations_);
  first.join();
  third.join();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->size, 1);
  EXPECT_EQ(next->generation, 2U);
  EXPECT_EQ(left_out, "rank 2: the job goes on without it, with ranks 0");
}

// Members 4 and 7, which have met.
class MembershipOfTwo : public Membership {
 protected:
  MembershipOfTwo() {
    for (const int id : {4, 7}) generations_.come(id);
    generations_.next();
    std::thread other([&] { second = meet(1); });
    first = meet(0);
    other.join();
  }

  std::shared_ptr<Meeting> first, second;
};

TEST_F(MembershipOfTwo, AMemberThatClosedItsConnectionsIsCutOffUnlessItHasLeft) {
  first->report(1, "rank 0: barrier with rank 1: timed out after 20 s");
  EXPECT_TRUE(roster_.cut_off(generations_).empty());
  first->report(1, std::string("rank 0: barrier with rank 1: ") + peer_ended);
  EXPECT_EQ(roster_.cut_off(generations_), std::vector{7});
  generations_.report(7, "it gave up");
  EXPECT_TRUE(roster_.cut_off(generations_).empty());
}

TEST_F(MembershipOfTwo, APeerThatEndedBeforeItSaidWhereItListensIsLost) {
  const TcpPlaces places(first, "tcp.0");
  const auto until = Clock::now() + std::chrono::seconds(60);
  EXPECT_FALSE(places.find(1, until));
  roster_.end(generations_, 7, "rank 7 was killed");
  try {
    places.find(1, until);
    ADD_FAILURE();
  } catch (const CommError& error) {
    EXPECT_EQ(std::string(error.what()), "it has ended: rank 7 was killed");
  }
  EXPECT_FALSE(places.find(0, until));
}

TEST_F(MembershipOfTwo, NobodyWaitsInPartsOfAMeetingForARankThatIsLost) {
  const auto part = first->section("python");
  Meeting inner(c10::make_intrusive<c10d::PrefixStore>("group", part), 0, 2);
  const auto inner_part = inner.section("gloo");
  roster_.end(generations_, 7, "rank 7 has been silent");
  const auto expect_lost = [](const std::function<void()>& wait, const std::string& who) {
    try {
      wait();
      ADD_FAILURE() << "there is nobody to wait for";
    } catch (const std::exception& error) {
      EXPECT_EQ(plain_reason(error.what(), {}), who + "rank 1 gave up: rank 7 has been silent");
    }
  };
  expect_lost([&] { part->get("address of rank 1"); }, "");
  expect_lost([&] { part->clone()->wait({"address of rank 1"}, std::chrono::seconds(60)); }, "");
  expect_lost([&] { inner.wait_for_all(std::chrono::seconds(60)); }, "rank 0: ");
  expect_lost([&] { inner_part->wait({"address of rank 1"}); }, "");
}

TEST_F(Membership, ASignalThatComesWhenAllHaveMetDoesNotUndoIt) {
  std::unique_ptr<Meeting> first;
  const Stop when_all_have_met = [&] {
    if (!store_.find("sotto/1/here/1")) return 0;
    if (!first) first = meet(0);
    return 15;
  };
  const std::unique_ptr<Meeting> second = meet(1, when_all_have_met);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->failure_of(1, Clock::now() + std::chrono::seconds(60)));
}

TEST_F(Membership, EndsWithTheRunOrInAnError) {
  roster_.close("");
  EXPECT_FALSE(join_generation(world(), {}));
  EXPECT_THROW(next_generation(world(), "lost", false, {}), CommError);
  roster_.close("they lost each other");
  EXPECT_THROW(join_generation(world(), {}), CommError);
}

TEST(MembershipStore, SaysInOneSentenceThatItIsGone) {
  std::optional<StoreServer> store(std::in_place, "127.0.0.1");
  World world;
  world.elastic = true;
  world.port = store->port();
  const auto stop = [&] {
    if (store && store->find(membership_keys::any_left(world.generation))) store.reset();
    return 0;
  };
  try {
    next_generation(world, "rank 1 is gone", false, stop);
    FAIL() << "there is nobody to say who goes on";
  } catch (const CommError& error) {
    EXPECT_EQ(error.what(), "the launcher at 127.0.0.1:" + std::to_string(world.port) +
                                " closed the connection: it ended or was killed; its own output says why");
  }
}

TEST_F(Membership, StopsWaitingAfterASignal) {
  EXPECT_THROW(join_generation(world(), [] { return 15; }), Stopped);
}

TEST_F(Membership, AHeartbeatTellsAndHears) {
  generations_.come(0);
  ASSERT_TRUE(generations_.next());
  {
    Heartbeat heartbeat(world());
    heartbeat.enter(1);
    wait_until([&] { return roster_.beat(0).has_value(); });
    const auto before = roster_.beat(0);
    wait_until([&] { return roster_.beat(0) != before; });
    EXPECT_FALSE(heartbeat.wants_change());
    roster_.ask_for_change(generations_);
    wait_until([&] { return heartbeat.wants_change(); });
    heartbeat.enter(2);
    EXPECT_FALSE(heartbeat.wants_change()) << "that was the group before";
    EXPECT_FALSE(roster_.farewell(0));
    heartbeat.farewell({});
  }
  wait_until([&] { return roster_.farewell(0).has_value(); });  // the store answers no set()
  EXPECT_FALSE(roster_.farewell(0)->failed);
  EXPECT_EQ(roster_.farewell(0)->words, "");
  end_in_job(world(), 0, "killed");
  EXPECT_FALSE(roster_.farewell(0)->failed) << "the rank's own words count";
  end_in_job(world(), 1, "killed");
  wait_until([&] { return roster_.farewell(1).has_value(); });
  EXPECT_TRUE(roster_.farewell(1)->failed);
  EXPECT_EQ(roster_.farewell(1)->words, "killed");
}

}  // namespace
}  // namespace sotto
