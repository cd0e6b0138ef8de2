#include "sotto/comm/group/membership.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/store.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/group/membership_keys.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/tcp/tcp.h"
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
    world.stores = &plain_stores();
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

  StoreServer store_{plain_stores(), "127.0.0.1"};
  Roster roster_{store_};
  Generations generations_{1, 3};
};

// A coordinator that takes the applications of ranks, or refuses them.
class MembershipOfApplicants : public Membership {
 protected:
  // What the rank says that gets the id.
  std::optional<Application> answer(int id, const std::string& refusal = "") {
    std::optional<std::string> said;
    wait_until([&] { return (said = roster_.application(id)).has_value(); });
    refusal.empty() ? roster_.admit(id) : roster_.turn_away(id, refusal);
    return read_application(*said, job, id);
  }

  void expect_withdrawn(int id) {
    EXPECT_FALSE(roster_.application(id));
    const auto farewell = roster_.farewell(id);
    ASSERT_TRUE(farewell);
    EXPECT_FALSE(farewell->failed);
    EXPECT_NE(farewell->words, "") << "that would be the end of the run";
  }
  // Sockets of this process that are connected to the store.
  std::vector<int> connections() const {
    std::vector<int> sockets;
    for (int file = 3; file < 1024; ++file) {
      sockaddr_storage peer{};
      socklen_t length = sizeof(peer);
      if (::getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
      if (SocketAddress(reinterpret_cast<const sockaddr*>(&peer), length).port() == store_.port()) {
        sockets.push_back(file);
      }
    }
    return sockets;
  }

  const std::string job = "some job";
};

TEST_F(MembershipOfApplicants, GetIdsFromTheNextOneOn) {
  roster_.give_out(5);
  roster_.open({.least = 2, .most = 3}, job);
  const JobSize size = size_of_job(world());
  EXPECT_EQ(size.least, 2U);
  EXPECT_EQ(size.most, 3U);
  EXPECT_EQ(roster_.next_id(5, 6), 5);
  const Secret secret = new_secret();
  int first = 0;
  std::thread rank([&] { first = join_job(world(), secret); });
  const auto with_secret = answer(5);
  rank.join();
  EXPECT_EQ(first, 5);
  ASSERT_TRUE(with_secret);
  EXPECT_EQ(with_secret->key, public_key_of(secret));
  std::string refused;
  std::thread other([&] {
    try {
      join_job(world());
    } catch (const ConfigError& error) {
      refused = error.what();
    }
  });
  const auto without = answer(6, "it has no secret");
  other.join();
  ASSERT_TRUE(without);
  EXPECT_EQ(without->key, "");
  EXPECT_NE(refused.find("it has no secret"), std::string::npos) << refused;
  EXPECT_EQ(roster_.next_id(5, 7), 7);
}

TEST_F(MembershipOfApplicants, WithdrawWhenTheyAreStopped) {
  roster_.give_out(5);
  roster_.open({.least = 2, .most = 3}, job);
  bool asked = false;
  const Stop stop = [&] { return (asked = asked || roster_.application(5).has_value()) ? 15 : 0; };
  EXPECT_THROW(join_job(world(), {}, stop), Stopped);
  expect_withdrawn(5);
}

// The coordinator has not answered before the connection broke, and reads both applications later.
TEST_F(MembershipOfApplicants, WithdrawBeforeTheyApplyAnew) {
  roster_.give_out(5);
  roster_.open({.least = 2, .most = 3}, job);
  const std::vector<int> ours = connections();
  bool broken = false;
  const Stop stop = [&] {
    if (broken || !roster_.application(5)) return 0;
    broken = true;
    for (const int socket : connections()) {
      if (std::ranges::find(ours, socket) == ours.end()) ::shutdown(socket, SHUT_RDWR);
    }
    return 0;
  };
  int id = 0;
  std::thread rank([&] { id = join_job(world(), {}, stop); });
  EXPECT_TRUE(answer(6));
  rank.join();
  EXPECT_EQ(id, 6);
  expect_withdrawn(5);
}

TEST_F(MembershipOfApplicants, AreNotThoseOfSomebodyElse) {
  const Secret secret = new_secret();
  const std::string text = application_text(secret, job, 3, "node1 (process 42)");
  const auto good = read_application(text, job, 3);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->from, "node1 (process 42)");
  EXPECT_EQ(text.find(secret_text(secret).substr(0, 64)), std::string::npos);
  EXPECT_FALSE(read_application(text, job, 4));
  EXPECT_FALSE(read_application(text, "another job", 3));
  EXPECT_FALSE(read_application(text + "x", job, 3));
  for (const char* nonsense : {"", " ", "none", "0", "none\x1b[31m", "00 00 x"}) {
    const auto read = read_application(nonsense, job, 3);
    EXPECT_TRUE(!read || read->key.empty()) << nonsense;
  }
}

TEST_F(Membership, IsNotLedAstrayByWhatStrangersWrite) {
  const std::vector<std::string> nonsense{"",
                                          "2000000000",
                                          "-1",
                                          "9223372036854775807",
                                          "99999999999999999999999",
                                          "x",
                                          "\x1b[31m\nsotto: rank 9 has come",
                                          std::string(std::size_t{1} << 20, '7'),
                                          std::string("\xff\x00\x9b", 3)};
  for (const std::string& text : nonsense) {
    store_.set(membership_keys::next_id, text);
    EXPECT_FALSE(roster_.next_id(0, 1000)) << text.substr(0, 50);
    store_.set(membership_keys::beat(0), "7 " + text);
    EXPECT_LE(roster_.patience(0, std::chrono::seconds(5)), std::chrono::hours(24)) << text.substr(0, 50);
    store_.set(membership_keys::farewell(0), text);
    const std::string words = roster_.farewell(0)->words;
    EXPECT_LT(words.size(), 5000U);
    EXPECT_EQ(words.find_first_of("\x1b\n\xff"), std::string::npos) << words;
  }
}

TEST_F(Membership, EachRankLearnsItsPlace) {
  for (const int id : {7, 2, 4}) generations_.come(id);
  ASSERT_TRUE(generations_.next());
  std::vector<std::thread> ranks;
  std::vector<std::optional<World>> places(3);
  for (const int id : {2, 4, 7}) roster_.admit(id);
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
  EXPECT_EQ(left_out, "rank 2: the job continues without it, with ranks 0");
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

TEST_F(MembershipOfTwo, APlaceIsNotBelievedWithoutBounds) {
  TcpPlaces places(first, "tcp.0");
  const auto until = Clock::now() + std::chrono::seconds(60);
  std::string many;  // as a rank leaves them with --streams 64, at the longest addresses
  for (int lane = 0; lane < 64; ++lane) many += (lane > 0 ? "\n" : "") + std::string(140, 'f');
  places.leave(1, many);
  EXPECT_EQ(places.find(1, until), many);
  places.leave(1, "\x1b[31m 80");
  EXPECT_EQ(places.find(1, until), "\\x1b[31m 80");
  places.leave(1, std::string(1 << 20, '\n'));
  EXPECT_THROW(places.find(1, until), CommError);
}

TEST_F(MembershipOfTwo, NobodyWaitsInPartsOfAMeetingForARankThatIsLost) {
  const auto part = as_c10d(first->section("python"), std::chrono::seconds(60));
  Meeting inner(from_c10d(c10::make_intrusive<c10d::PrefixStore>("group", part)), std::chrono::seconds(60), 0, 2);
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
  expect_lost([&] { inner_part->get("address of rank 1"); }, "");
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
  EXPECT_THROW(next_generation(world(), "lost", false, {}), NotWanted);
  roster_.close("one of them failed");
  EXPECT_THROW(join_generation(world(), {}), CommError);
  EXPECT_THROW(next_generation(world(), "lost", false, {}), NotWanted);
  roster_.close("they lost each other", true);
  try {
    next_generation(world(), "lost", false, {});
    ADD_FAILURE();
  } catch (const NotWanted&) {
    ADD_FAILURE() << "its state should be saved";
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "they lost each other");
  }
}

TEST_F(Membership, NobodyWaitsLongForACoordinatorThatDoesNotKnowHim) {
  World member = world();
  member.coordinator_wait = std::chrono::seconds(1);
  for (const bool is_new : {false, true}) {
    try {
      is_new ? static_cast<void>(join_generation(member, {}))
             : static_cast<void>(next_generation(member, "lost", false, {}));
      ADD_FAILURE();
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("knows nothing of this job"), std::string::npos) << error.what();
    }
  }
}

// The next coordinator is there when the former one goes away, after the rank has waited for other ranks for longer
// than it waits for a coordinator.
TEST(MembershipStore, ThatGoesAwayIsWaitedForFromThenOn) {
  std::optional<StoreServer> store(std::in_place, plain_stores(), "127.0.0.1");
  World world;
  world.elastic = world.coordinated = true;
  world.port = store->port();
  world.stores = &plain_stores();
  world.generation = 1;
  world.coordinator_wait = std::chrono::seconds(5);
  Roster(*store).admit(0);
  const auto begin = Clock::now();
  int looks = 0;
  const Stop stop = [&] {  // asked in each round of its wait
    if (Clock::now() - begin < world.coordinator_wait || ++looks != 2) return 0;
    store.reset();
    store.emplace(plain_stores(), "127.0.0.1", world.port);
    Generations generations(1, 1);
    generations.come(0);
    generations.next();
    Roster roster(*store);
    roster.announce(generations);
    roster.admit(0);
    return 0;
  };
  const auto place = join_generation(world, stop);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->generation, 1U);
}

TEST(MembershipStore, SaysInOneSentenceThatItIsGone) {
  std::optional<StoreServer> store(std::in_place, plain_stores(), "127.0.0.1");
  World world;
  world.elastic = true;
  world.port = store->port();
  world.stores = &plain_stores();
  const auto stop = [&] {
    if (store && store->find(membership_keys::any_left(world.generation))) store.reset();
    return 0;
  };
  try {
    next_generation(world, "rank 1 is gone", false, stop);
    FAIL() << "there is nobody to say who continues";
  } catch (const CommError& error) {
    EXPECT_EQ(error.what(), "the launcher at 127.0.0.1:" + std::to_string(world.port) +
                                " closed the connection: it ended or was killed; its own output says why");
  }
}

TEST_F(Membership, StopsWaitingAfterASignal) {
  roster_.admit(0);
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
