#include "sotto/comm/bounded_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

namespace sotto {
namespace {

TEST(BoundedStore, EndsWithTheLastOfThoseMadeOfIt) {
  auto inner = c10::make_intrusive<c10d::HashStore>();
  const c10::weak_intrusive_ptr<c10d::HashStore> lives(inner);
  auto store = c10::make_intrusive<BoundedStore>(std::move(inner), "a store", std::chrono::seconds(60));
  auto sooner = store->until(Clock::now() + std::chrono::seconds(60));
  auto copy = sooner;
  store.reset();
  EXPECT_EQ(copy.use_count(), 2U);
  EXPECT_FALSE(lives.expired());
  sooner.reset();
  copy.reset();
  EXPECT_TRUE(lives.expired()) << "its connection stays open";
}

}  // namespace
}  // namespace sotto
