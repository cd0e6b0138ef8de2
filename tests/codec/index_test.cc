#include "sotto/codec/index.h"

#include <gtest/gtest.h>

#include <vector>

#include "sotto/core/random.h"

namespace sotto::testing {
namespace {

std::vector<std::uint32_t> draw_indices(std::size_t atoms, double share, std::uint64_t seed) {
  std::vector<std::uint32_t> indices;
  Philox random(seed, Purpose::test);
  for (std::size_t i = 0; i < atoms; ++i) {
    if (random.uniform() < share) indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

void expect_round_trip(const std::vector<std::uint32_t>& indices, std::size_t atoms, IndexPlan plan) {
  std::vector<std::byte> bytes(plan.bytes);
  write_indices(indices, plan, bytes);
  std::vector<std::uint32_t> back(indices.size());
  ASSERT_EQ(read_indices(bytes, plan.code, atoms, back), indices.size());
  EXPECT_EQ(back, indices);
}

TEST(Indices, GoThereAndBackWithinTheBound) {
  for (const std::size_t atoms : {0, 1, 7, 8, 9, 1000, 100003}) {
    for (const double share : {0.0, 0.0001, 0.01, 0.1, 0.13, 0.5, 1.0}) {
      const auto indices = draw_indices(atoms, share, atoms);
      const IndexPlan plan = plan_indices(indices, atoms);
      EXPECT_LE(plan.bytes, max_index_bytes(indices.size(), atoms));
      EXPECT_LE(plan.bytes, (atoms + 7) / 8);
      expect_round_trip(indices, atoms, plan);
    }
  }
}

TEST(Indices, TakeTheSmallerForm) {
  EXPECT_EQ(plan_indices(draw_indices(1000, 0.01, 1), 1000).code, IndexCode::delta);
  EXPECT_EQ(plan_indices(draw_indices(1000, 0.5, 1), 1000).code, IndexCode::bitmap);
  const std::vector<std::uint32_t> two{3, 9};
  EXPECT_EQ(plan_indices(two, 16).code, IndexCode::delta);  // two bytes either way
}

TEST(Indices, HaveGapsOfEveryLength) {
  const std::size_t atoms = 4'294'967'295;
  const std::vector<std::uint32_t> indices{0, 1, 128, 129 + 128, 20'000, 40'000, 3'000'000, 600'000'000, 4'294'967'294};
  const IndexPlan plan = plan_indices(indices, atoms);
  ASSERT_EQ(plan.code, IndexCode::delta);
  EXPECT_EQ(plan.bytes, 1U + 1 + 1 + 2 + 3 + 3 + 4 + 5 + 5);
  EXPECT_LE(plan.bytes, max_index_bytes(indices.size(), atoms));
  expect_round_trip(indices, atoms, plan);
}

TEST(Indices, BoundIsReached) {
  // Every gap is the smallest that takes two bytes.
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 128; i < 129 * 50; i += 129) indices.push_back(i);
  const std::size_t atoms = indices.back() + 1;
  EXPECT_EQ(plan_indices(indices, atoms).bytes, 2 * indices.size());
  EXPECT_EQ(max_index_bytes(indices.size(), atoms), 2 * indices.size());
}

}  // namespace
}  // namespace sotto::testing
