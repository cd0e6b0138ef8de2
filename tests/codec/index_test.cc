#include "sotto/codec/index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sotto/core/error.h"
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

Workers one(1);

void expect_round_trip(const std::vector<std::uint32_t>& indices, std::size_t atoms, IndexPlan plan) {
  std::vector<std::byte> bytes(plan.bytes);
  write_indices(one, indices, plan, bytes);
  std::vector<std::uint32_t> back(indices.size());
  ASSERT_EQ(read_indices(one, bytes, plan.code, atoms, back), indices.size());
  EXPECT_EQ(back, indices);
}

TEST(Indices, GoThereAndBackWithinTheBound) {
  for (const std::size_t atoms : {0, 1, 7, 8, 9, 1000, 100003}) {
    for (const double share : {0.0, 0.0001, 0.01, 0.1, 0.13, 0.5, 1.0}) {
      const auto indices = draw_indices(atoms, share, atoms);
      const IndexPlan plan = plan_indices(one, indices, atoms);
      EXPECT_LE(plan.bytes, max_index_bytes(indices.size(), atoms));
      EXPECT_LE(plan.bytes, (atoms + 7) / 8);
      expect_round_trip(indices, atoms, plan);
    }
  }
}

TEST(Indices, TakeTheSmallerForm) {
  EXPECT_EQ(plan_indices(one, draw_indices(1000, 0.01, 1), 1000).code, IndexCode::delta);
  EXPECT_EQ(plan_indices(one, draw_indices(1000, 0.5, 1), 1000).code, IndexCode::bitmap);
  const std::vector<std::uint32_t> two{3, 9};
  EXPECT_EQ(plan_indices(one, two, 16).code, IndexCode::delta);  // two bytes either way
}

TEST(Indices, HaveGapsOfEveryLength) {
  const std::size_t atoms = 4'294'967'295;
  const std::vector<std::uint32_t> indices{0, 1, 128, 129 + 128, 20'000, 40'000, 3'000'000, 600'000'000, 4'294'967'294};
  const IndexPlan plan = plan_indices(one, indices, atoms);
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
  EXPECT_EQ(plan_indices(one, indices, atoms).bytes, 2 * indices.size());
  EXPECT_EQ(max_index_bytes(indices.size(), atoms), 2 * indices.size());
}

// Tasks of a few bytes and indices each.
TEST(Indices, AreTheSameOnSeveralThreads) {
  Workers several(3, 16);
  for (const std::size_t atoms : {1, 8, 9, 100, 1000, 20003}) {
    for (const double share : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      const auto indices = draw_indices(atoms, share, atoms);
      for (const IndexCode code : {IndexCode::delta, IndexCode::bitmap}) {
        IndexPlan plan = plan_indices(several, indices, atoms);
        EXPECT_EQ(plan.bytes, plan_indices(one, indices, atoms).bytes);
        if (code == IndexCode::bitmap) plan = {code, (atoms + 7) / 8};
        if (plan.code != code) continue;
        std::vector<std::byte> bytes(plan.bytes), expected(plan.bytes);
        write_indices(several, indices, plan, bytes);
        write_indices(one, indices, plan, expected);
        EXPECT_EQ(bytes, expected) << atoms << " " << share;
        std::vector<std::uint32_t> back(indices.size());
        ASSERT_EQ(read_indices(several, bytes, code, atoms, back), indices.size());
        EXPECT_EQ(back, indices) << atoms << " " << share;
      }
    }
  }
}

// What reading these bytes says is wrong, or nothing.
std::string complaint(Workers& workers, std::span<const std::byte> bytes, IndexCode code, std::size_t atoms,
                      std::size_t most) {
  std::vector<std::uint32_t> indices(most);
  try {
    read_indices(workers, bytes, code, atoms, indices);
  } catch (const WireError& error) {
    return error.what();
  }
  return "";
}

TEST(Indices, AreRefusedForTheSameReasonOnSeveralThreads) {
  Workers several(3, 16);
  Philox random(5, Purpose::test);
  const std::size_t atoms = 3001;
  const auto indices = draw_indices(atoms, 0.05, 3);
  int refused = 0;
  for (const IndexCode code : {IndexCode::delta, IndexCode::bitmap}) {
    IndexPlan plan = plan_indices(one, indices, atoms);
    if (code == IndexCode::bitmap) plan = {code, (atoms + 7) / 8};
    std::vector<std::byte> bytes(plan.bytes);
    write_indices(one, indices, plan, bytes);
    for (int round = 0; round < 3000; ++round) {
      auto damaged = bytes;
      if (round % 3 == 0) damaged.resize(random.below(static_cast<std::uint32_t>(bytes.size() + 1)));
      for (std::uint32_t flips = 1 + random.below(8); flips > 0 && !damaged.empty(); --flips) {
        const std::uint32_t at = random.below(static_cast<std::uint32_t>(damaged.size()));
        damaged[at] = static_cast<std::byte>(random.below(4) == 0 ? 0xFFU : random.below(256));
      }
      const std::size_t most = indices.size() - random.below(3) + 2;
      const std::string reason = complaint(one, damaged, code, atoms, most);
      EXPECT_EQ(complaint(several, damaged, code, atoms, most), reason);
      refused += reason.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Indices, OfBytesThatNeverEndAreRefused) {
  Workers several(3, 16);
  const std::vector<std::byte> bytes(1000, std::byte{0x80});
  EXPECT_EQ(complaint(several, bytes, IndexCode::delta, 1 << 20, 100),
            complaint(one, bytes, IndexCode::delta, 1 << 20, 100));
  EXPECT_NE(complaint(several, bytes, IndexCode::delta, 1 << 20, 100), "");
}

}  // namespace
}  // namespace sotto::testing
