#include "sotto/comm/group/bounded_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace sotto {
namespace {

TEST(BoundedStore, EndsWithTheLastOfThoseMadeOfIt) {
  StorePtr inner = make_memory_store();
  const std::weak_ptr<Store> lives(inner);
  auto store = std::make_shared<BoundedStore>(std::move(inner), "a store", std::chrono::seconds(60));
  auto sooner = store->until(Clock::now() + std::chrono::seconds(60));
  auto copy = sooner;
  store.reset();
  EXPECT_EQ(copy.use_count(), 2);
  EXPECT_FALSE(lives.expired());
  sooner.reset();
  copy.reset();
  EXPECT_TRUE(lives.expired()) << "its connection stays open";
}

// As a server that is stopped for hours, which is asked again and again.
TEST(Bounded, BeginsNoWorkWhileMuchOfItBlocks) {
  std::promise<void> goes_on;
  const std::shared_future<void> answer = goes_on.get_future().share();
  const auto begun = std::make_shared<std::atomic<int>>(0);
  const auto ask = [&](std::chrono::milliseconds time) {
    return bounded(Clock::now() + time, {}, [answer, begun] {
      ++*begun;
      answer.wait();
      return 1;
    });
  };
  for (int i = 0; i < BlockedRequest::most + 4; ++i) EXPECT_FALSE(ask(std::chrono::milliseconds(1)));
  EXPECT_EQ(BlockedRequest::count(), BlockedRequest::most);
  goes_on.set_value();
  while (BlockedRequest::count() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(*begun, BlockedRequest::most);
  EXPECT_EQ(ask(std::chrono::seconds(60)), 1);
}

}  // namespace
}  // namespace sotto
