#include "sotto/codec/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/codec/fixture.h"

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

ThreadPool one(1);

// The plan of each code for these indices, not only the smallest.
std::vector<IndexPlan> all_plans(const std::vector<std::uint32_t>& indices, std::size_t atoms) {
  std::vector<IndexPlan> plans{{IndexCode::bitmap, (atoms + 7) / 8, 0}};
  std::size_t groups = 0, words = 0;
  std::vector<std::uint64_t> gaps;
  std::uint64_t next = 0;
  for (const std::uint32_t index : indices) {
    gaps.push_back(index - next);
    next = index + std::uint64_t{1};
    words += gaps.back() / 65535 + 1;
    for (std::uint64_t gap = gaps.back() | 1; gap > 0; gap >>= 7) ++groups;
  }
  plans.push_back({IndexCode::delta, groups, 0});
  plans.push_back({IndexCode::runs, 2 * words, 0});
  for (unsigned shift = 0; shift < 32 && !indices.empty(); ++shift) {
    std::uint64_t quotients = 0;
    for (const std::uint64_t gap : gaps) quotients += gap >> shift;
    if (quotients > 1'000'000) continue;
    plans.push_back(
        {IndexCode::rice, 5 + (indices.size() * shift + 7) / 8 + (indices.size() + quotients + 7) / 8, shift});
  }
  return plans;
}

void expect_round_trip(const std::vector<std::uint32_t>& indices, std::size_t atoms, IndexPlan plan) {
  std::vector<std::byte> bytes(plan.bytes);
  write_indices(one, indices, plan, bytes);
  std::vector<std::uint32_t> back(indices.size());
  ASSERT_EQ(read_indices(one, bytes, plan.code, atoms, back), indices.size());
  EXPECT_EQ(back, indices);
}

// The plan is at most as large as each code makes it, and ties go to delta, the bitmap, runs and Rice's code, in this
// order.
void expect_smallest(const std::vector<std::uint32_t>& indices, std::size_t atoms) {
  const IndexPlan plan = plan_indices(one, indices, atoms);
  EXPECT_LE(plan.bytes, max_index_bytes(indices.size(), atoms));
  EXPECT_LE(plan.bytes, (atoms + 7) / 8);
  const auto rank = [](IndexCode code) {
    constexpr std::array order{IndexCode::delta, IndexCode::bitmap, IndexCode::runs, IndexCode::rice};
    return std::ranges::find(order, code) - order.begin();
  };
  for (const IndexPlan& any : all_plans(indices, atoms)) {
    const std::string about = std::to_string(indices.size()) + " of " + std::to_string(atoms) + ", code " +
                              std::to_string(static_cast<int>(any.code)) + ", shift " + std::to_string(any.shift);
    // Rice's shift minimises bits, which may take a byte more.
    EXPECT_LE(plan.bytes, any.bytes + (any.code == IndexCode::rice ? 1 : 0)) << about;
    EXPECT_TRUE(plan.bytes < any.bytes || any.code == IndexCode::rice || rank(plan.code) <= rank(any.code)) << about;
    expect_round_trip(indices, atoms, any);
  }
}

TEST(Indices, GoThereAndBackWithinTheBound) {
  for (const std::size_t atoms : {0, 1, 7, 8, 9, 1000, 100003}) {
    for (const double share : {0.0, 0.0001, 0.01, 0.1, 0.13, 0.5, 0.9, 0.999, 1.0}) {
      expect_smallest(draw_indices(atoms, share, atoms), atoms);
    }
  }
}

// Selections of about half of the atoms and more: their number and the last index mostly tell the smallest form.
TEST(Indices, OfMostAtomsTakeTheSmallestForm) {
  std::vector<std::size_t> sizes(130);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {1000, 1001, 1024});
  for (const std::size_t atoms : sizes) {
    const auto run = [&](std::size_t first, std::size_t last) {
      std::vector<std::uint32_t> indices(last - first);
      std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(first));
      if (!indices.empty()) expect_smallest(indices, atoms);
    };
    run(0, atoms);
    run(1, atoms);
    run(0, atoms - 1);
    run(0, (atoms + 1) / 2);
    run(atoms / 2, atoms);
    for (std::size_t left_out : {30, 39, 40, 41, 47, 48, 49}) run(0, atoms - std::min(left_out, atoms));
    for (const double share : {0.45, 0.5, 0.55, 0.7, 0.98}) expect_smallest(draw_indices(atoms, share, atoms), atoms);
  }
  std::vector<std::uint32_t> fewer;  // than half: short gaps and a long one are for Rice's code
  for (std::uint32_t i = 0; i < 1600; i += 2) fewer.push_back(i);
  fewer.push_back(1999);
  expect_smallest(fewer, 2000);
  EXPECT_EQ(plan_indices(one, fewer, 2000).code, IndexCode::rice);
}

TEST(Indices, SharesOfAListAreItsBits) {
  constexpr std::size_t atoms = 100'003;
  for (const double share : {0.00002, 0.01, 0.5}) {
    const auto indices = draw_indices(atoms, share, 1);
    for (const IndexPlan& plan : all_plans(indices, atoms)) {
      std::vector<std::byte> list(plan.bytes);
      write_indices(one, indices, plan, list);
      std::uint64_t bits = 0;
      std::size_t taken = 0, begin = 0;
      for (const std::size_t end : {std::size_t{7}, std::size_t{40'000}, atoms}) {
        const auto until = static_cast<std::size_t>(std::ranges::lower_bound(indices, end) - indices.begin());
        bits += index_bits(indices, {taken, until}, end - begin, plan.code, list);
        taken = until;
        begin = end;
      }
      if (plan.code == IndexCode::rice) {  // a head, and remainders and quotients, each in whole bytes
        const std::uint64_t remainders = indices.size() * plan.shift;
        EXPECT_EQ(5 + (remainders + 7) / 8 + (bits - remainders + 7) / 8, list.size()) << plan.shift;
      } else {
        EXPECT_EQ((bits + 7) / 8, list.size()) << static_cast<int>(plan.code);
      }
    }
  }
}

TEST(Indices, TakeTheSmallestForm) {
  EXPECT_EQ(plan_indices(one, draw_indices(1000, 0.01, 1), 1000).code, IndexCode::delta);
  EXPECT_EQ(plan_indices(one, draw_indices(100'000, 0.01, 1), 100'000).code, IndexCode::rice);
  EXPECT_EQ(plan_indices(one, draw_indices(1000, 0.5, 1), 1000).code, IndexCode::bitmap);
  const std::vector<std::uint32_t> two{3, 9};
  EXPECT_EQ(plan_indices(one, two, 16).code, IndexCode::delta);  // both forms take two bytes
  for (const std::size_t all : {1, 2, 8, 9, 1000}) {
    const auto every = draw_indices(all, 1.1, 1);
    EXPECT_EQ(plan_indices(one, every, all).code, all == 1 ? IndexCode::delta : IndexCode::bitmap) << all;
    expect_round_trip(every, all, plan_indices(one, every, all));
    expect_round_trip(every, all + 13, {IndexCode::bitmap, (all + 20) / 8, 0});  // none is left out before the last
  }
  const std::vector<std::uint32_t> far{20'000, 60'000};
  EXPECT_EQ(plan_indices(one, far, 70'000).code, IndexCode::runs);
  EXPECT_EQ(plan_indices(one, far, 70'000).bytes, 4U);
}

// Rice's code may take only a small share more than the entropy of random indices.
TEST(Indices, OfRandomElementsTakeLittleMoreThanTheirEntropy) {
  const std::size_t atoms = 1'000'000;
  for (const double share : {0.001, 0.01, 0.05, 0.1, 0.2}) {
    const auto indices = draw_indices(atoms, share, 5);
    const double p = static_cast<double>(indices.size()) / atoms;
    const double entropy = -static_cast<double>(atoms) * (p * std::log2(p) + (1 - p) * std::log2(1 - p)) / 8;
    const IndexPlan plan = plan_indices(one, indices, atoms);
    EXPECT_EQ(plan.code, IndexCode::rice);
    EXPECT_LT(static_cast<double>(plan.bytes), 1.035 * entropy) << share;
    EXPECT_GT(static_cast<double>(plan.bytes), 0.99 * entropy) << share;
  }
}

// The indices crowd at one end, so the mean of the gaps says little.
TEST(Indices, FindTheBestShiftFarFromTheMean) {
  for (const bool turned : {false, true}) {
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < 3000; ++i) indices.push_back(turned ? 4'000'000 + 3 * i : 2 * i);
    indices.push_back(5'000'000);
    const IndexPlan plan = plan_indices(one, indices, 5'000'001);
    std::size_t best = plan.bytes;
    for (const IndexPlan& any : all_plans(indices, 5'000'001)) best = std::min(best, any.bytes);
    EXPECT_LE(plan.bytes, best + 1);
    expect_round_trip(indices, 5'000'001, plan);
  }
}

TEST(Indices, HaveGapsOfEveryLength) {
  const std::size_t atoms = 4'294'967'295;
  const std::vector<std::uint32_t> indices{0, 1, 128, 129 + 128, 20'000, 40'000, 3'000'000, 600'000'000, 4'294'967'294};
  const IndexPlan plan = plan_indices(one, indices, atoms);
  ASSERT_EQ(plan.code, IndexCode::delta);
  EXPECT_EQ(plan.bytes, 1U + 1 + 1 + 2 + 3 + 3 + 4 + 5 + 5);
  EXPECT_LE(plan.bytes, max_index_bytes(indices.size(), atoms));
  for (const IndexPlan& any : all_plans(indices, atoms)) {
    if (any.code != IndexCode::bitmap) expect_round_trip(indices, atoms, any);
  }
}

TEST(Indices, BoundIsReached) {
  // Every gap is the smallest one that takes two bytes.
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 128; i < 129 * 4; i += 129) indices.push_back(i);
  const std::size_t atoms = indices.back() + 1;
  EXPECT_EQ(plan_indices(one, indices, atoms).bytes, 2 * indices.size());
  EXPECT_EQ(max_index_bytes(indices.size(), atoms), 2 * indices.size());
}

// Each task has a few bytes and indices only.
TEST(Indices, AreTheSameOnSeveralThreads) {
  ThreadPool several(3, 16);
  for (const std::size_t atoms : {1, 8, 9, 100, 1000, 20003}) {
    for (const double share : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      const auto indices = draw_indices(atoms, share, atoms);
      const IndexPlan chosen = plan_indices(several, indices, atoms), alone = plan_indices(one, indices, atoms);
      EXPECT_EQ(chosen.code, alone.code);
      EXPECT_EQ(chosen.bytes, alone.bytes);
      EXPECT_EQ(chosen.shift, alone.shift);
      for (const IndexPlan& plan : all_plans(indices, atoms)) {
        std::vector<std::byte> bytes(plan.bytes), expected(plan.bytes);
        write_indices(several, indices, plan, bytes);
        write_indices(one, indices, plan, expected);
        EXPECT_EQ(bytes, expected) << atoms << " " << share;
        std::vector<std::uint32_t> back(indices.size());
        ASSERT_EQ(read_indices(several, bytes, plan.code, atoms, back), indices.size());
        EXPECT_EQ(back, indices) << atoms << " " << share;
      }
    }
  }
}

// The error of reading these bytes, or "".
std::string complaint(ThreadPool& pool, std::span<const std::byte> bytes, IndexCode code, std::size_t atoms,
                      std::size_t most) {
  std::vector<std::uint32_t> indices(most);
  try {
    read_indices(pool, bytes, code, atoms, indices);
  } catch (const WireError& error) {
    return error.what();
  }
  return "";
}

// Expects that the indices read are ascending and below `atoms`, and that writing them gives the same bytes.
void expect_the_only_form(std::span<const std::byte> bytes, IndexCode code, std::size_t atoms, std::size_t most) {
  std::vector<std::uint32_t> indices(most);
  indices.resize(read_indices(one, bytes, code, atoms, indices));
  for (std::size_t j = 0; j < indices.size(); ++j) {
    ASSERT_LT(indices[j], atoms);
    if (j > 0) {
      ASSERT_LT(indices[j - 1], indices[j]);
    }
  }
  const unsigned shift = code == IndexCode::rice ? std::to_integer<unsigned>(bytes[0]) : 0;
  std::vector<std::byte> again(bytes.size());
  write_indices(one, indices, {code, bytes.size(), shift}, again);
  EXPECT_TRUE(std::ranges::equal(again, bytes));
}

TEST(Indices, AreRefusedForTheSameReasonOnSeveralThreads) {
  ThreadPool several(3, 16);
  Philox random(5, Purpose::test);
  const std::size_t atoms = 3001;
  const auto indices = draw_indices(atoms, 0.05, 3);
  const int rounds = is_sample ? 500 : 3000;
  int refused = 0;
  for (const IndexPlan& plan : all_plans(indices, atoms)) {
    const IndexCode code = plan.code;
    std::vector<std::byte> bytes(plan.bytes);
    write_indices(one, indices, plan, bytes);
    for (int round = 0; round < rounds; ++round) {
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
      if (reason.empty()) expect_the_only_form(damaged, code, atoms, most);
    }
  }
  EXPECT_GT(refused, rounds / 3);
}

std::string rice_complaint(const std::vector<std::uint8_t>& bytes, std::size_t atoms, std::size_t most = 4) {
  return complaint(one, std::as_bytes(std::span(bytes)), IndexCode::rice, atoms, most);
}

// Two indices in Rice's code with remainders of 3 bits: 1 * 8 + 2 = 10, and 11 + 0 * 8 + 5 = 16.
TEST(Indices, OfRiceHaveOneFormOnly) {
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b110}, 17), "");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b110}, 16), "index 16 of 16 atoms");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b110}, 7), "an index beyond 7 atoms");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b110}, 17, 1),
            "index list of more than the 1 indices that this codec can select");
  for (const std::vector<std::uint8_t>& bytes : std::vector<std::vector<std::uint8_t>>{
           {3, 2, 0, 0}, {3, 2, 0, 0, 0}, {3, 2, 0, 0, 0, 0b101010}, {3, 255, 255, 0, 0, 0, 1}}) {
    EXPECT_EQ(rice_complaint(bytes, 17, std::size_t{1} << 16), "truncated index list");
  }
  const std::string malformed = "malformed index list: ";
  EXPECT_EQ(rice_complaint({32, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 17), malformed + "remainders of 32 bits");
  EXPECT_EQ(rice_complaint({3, 0, 0, 0, 0}, 17), malformed + "Rice's code of no indices");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b1101010, 0b110}, 17),
            malformed + "bits after the last remainder that are not zero");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b110, 0}, 17), malformed + "a last byte without an index");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b1110}, 30), malformed + "3 indices, where 2 were announced");
  EXPECT_EQ(rice_complaint({3, 2, 0, 0, 0, 0b101010, 0b100}, 30), malformed + "1 indices, where 2 were announced");
}

TEST(Indices, OfRunsHaveOneFormOnly) {
  const auto of = [](const std::vector<std::uint8_t>& bytes, std::size_t atoms) {
    return complaint(one, std::as_bytes(std::span(bytes)), IndexCode::runs, atoms, 1);
  };
  EXPECT_EQ(of({255, 255, 1, 0}, 65537), "");
  EXPECT_EQ(of({255, 255, 1, 0}, 65536), "index 65536 of 65536 atoms");
  EXPECT_EQ(of({255, 255}, 65537), "truncated index list");
  EXPECT_EQ(of({1, 0, 2}, 65537), "truncated index list");
  EXPECT_EQ(of({1, 0, 2, 0}, 65537), "index list of more than the 1 indices that this codec can select");
}

TEST(Indices, OfBytesThatNeverEndAreRefused) {
  ThreadPool several(3, 16);
  const std::vector<std::byte> bytes(1000, std::byte{0x80});
  EXPECT_EQ(complaint(several, bytes, IndexCode::delta, 1 << 20, 100),
            complaint(one, bytes, IndexCode::delta, 1 << 20, 100));
  EXPECT_NE(complaint(several, bytes, IndexCode::delta, 1 << 20, 100), "");
}

}  // namespace
}  // namespace sotto::testing
