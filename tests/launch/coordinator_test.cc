#include "app/launch/coordinator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/core/error.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

// A coordinator of one rank at a time, and ranks that are only words in its store.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() { start(); }

  World world(int id = 0) const {
    World world;
    world.elastic = world.coordinated = true;
    world.port = coordinator_->port();
    world.stores = &plain_stores();
    world.id = id;
    world.generation = 1;
    return world;
  }

  void look_until(const std::function<bool()>& condition) {
    const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      ASSERT_LT(Clock::now(), end);
      ASSERT_TRUE(coordinator_->look_after());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  int join(const std::optional<Secret>& secret = {}) {
    std::optional<int> id;
    std::exception_ptr failure;
    std::atomic<bool> done = false;
    std::thread rank([&] {
      try {
        id = join_job(world(), secret);
      } catch (...) {
        failure = std::current_exception();
      }
      done = true;
    });
    look_until([&] { return done.load(); });
    rank.join();
    if (failure) std::rethrow_exception(failure);
    return *id;
  }

  // The next one of the same job, if there was one before.
  void start() {
    coordinator_.reset();
    coordinator_.emplace(CoordinatorSpec{.place = {"127.0.0.1", 0}, .state = (folder_ / "state").string()}, console_);
  }

  const test::TemporaryFolder folder_;
  Console console_;
  std::optional<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, StaysUntilAllHaveHeardTheEnd) {
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(join(), 1);
  look_until([&] { return coordinator_->generations().number() == 1; });
  Heartbeat(world(0)).farewell({});
  look_until([&] { return coordinator_->has_ended(); });
  const Clock::time_point ended = Clock::now();
  look_until([&] { return Clock::now() - ended > std::chrono::seconds(3); });
  EXPECT_FALSE(join_generation(world(1), {})) << "it still answers";
  Heartbeat(world(1)).farewell({});
  while (coordinator_->look_after()) ASSERT_LT(Clock::now() - ended, std::chrono::seconds(20));
  EXPECT_EQ(coordinator_->error(), "");
}

TEST_F(CoordinatorTest, TheFirstRankSetsTheSecret) {
  const Secret secret = new_secret();
  EXPECT_EQ(join(secret), 0);
  EXPECT_THROW(join(), ConfigError);
  EXPECT_THROW(join(new_secret()), ConfigError);
  EXPECT_EQ(join(secret), 3);
  EXPECT_EQ(coordinator_->generations().there(), (std::vector{0, 3}));
}

TEST_F(CoordinatorTest, ARestartedOneKnowsUninformedMembers) {
  EXPECT_EQ(join(), 0);
  look_until([&] { return coordinator_->generations().number() == 1; });
  start();
  World member = world(0);
  member.coordinator_wait = std::chrono::seconds(20);
  const auto place = join_generation(member, {});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->generation, 1U);
  EXPECT_EQ(place->size, 1);
}

}  // namespace
}  // namespace sotto
