#include "sotto/train/newcomer_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "sotto/comm/threads.h"

namespace sotto {
namespace {

// What a rank holds: its vectors need not be as long as those of others before it is a newcomer.
struct Held {
  std::vector<float> parameters, moments;
  std::vector<std::uint8_t> bytes;
  std::uint64_t count = 0;
  bool operator==(const Held&) const = default;

  void visit_shared(NewcomerState& state) {
    state.send(std::span(parameters));
    state.visit("moments", moments);
    state.visit("bytes", bytes);
    state.visit("count", count);
  }
};

Held held_by(int rank, std::size_t elements) {
  Held held{.parameters = std::vector<float>(elements),
            .moments = std::vector<float>(elements / 2 + static_cast<std::size_t>(rank)),
            .bytes = std::vector<std::uint8_t>(static_cast<std::size_t>(rank), 7),
            .count = 100 + static_cast<std::uint64_t>(rank)};
  std::iota(held.parameters.begin(), held.parameters.end(), static_cast<float>(rank));
  std::iota(held.moments.begin(), held.moments.end(), static_cast<float>(-rank));
  return held;
}

struct Case {
  int ranks, donor;
  std::vector<int> newcomers;
  std::size_t elements;
};

class NewcomerStateLaw : public testing::TestWithParam<Case> {};

TEST_P(NewcomerStateLaw, NewcomersGetAllOfItAndOthersNothing) {
  const auto& [ranks, donor, newcomers, elements] = GetParam();
  run_threads(ranks, std::chrono::seconds(20), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const bool is_new = std::ranges::find(newcomers, rank) != newcomers.end();
    Held held = held_by(rank, elements);
    const Held given = held_by(donor, elements);
    const Traffic before = communicator.traffic();
    NewcomerState state(communicator, donor, newcomers);
    held.visit_shared(state);
    state.finish();
    const Traffic after = communicator.traffic();
    EXPECT_TRUE(held == (is_new ? given : held_by(rank, elements))) << "rank " << rank;

    // Each link carries it once.
    const std::uint64_t all = 4 * (given.parameters.size() + given.moments.size()) + given.bytes.size() + 3 * 8;
    const std::uint64_t sent = after.bytes_sent - before.bytes_sent, got = after.bytes_received - before.bytes_received;
    const auto others = static_cast<std::uint64_t>(ranks) - 1 - newcomers.size();
    EXPECT_EQ(got, is_new ? all : rank == donor ? 0 : 1);
    EXPECT_EQ(sent, rank == donor ? all + others : is_new && rank != newcomers.back() ? all : 0);
  });
}

constexpr std::size_t chunks = (std::size_t{3} << 18) + 5;  // of floats: three chunks of 1 MiB, and a bit
INSTANTIATE_TEST_SUITE_P(All, NewcomerStateLaw,
                         testing::Values(Case{2, 0, {1}, chunks}, Case{4, 0, {3}, chunks},
                                         Case{5, 1, {0, 2, 4}, chunks}, Case{5, 4, {0, 1, 2, 3}, chunks},
                                         Case{3, 2, {1}, 0}, Case{3, 0, {2, 1}, 1}));

TEST(NewcomerState, MayTakeLongerThanTheDeadline) {
  const auto deadline = std::chrono::seconds(6);
  run_threads(3, deadline, [&](Communicator& communicator) {
    std::vector<float> values(2 * chunks, static_cast<float>(communicator.rank()));
    NewcomerState state(communicator, 0, {2});
    for (int i = 0; i < 3; ++i) {
      if (communicator.rank() == 2) std::this_thread::sleep_for(deadline * 2 / 5);
      state.send(std::span(values));
    }
    state.finish();
    communicator.barrier();
    EXPECT_EQ(values.back(), communicator.rank() == 1 ? 1 : 0);
  });
}

}  // namespace
}  // namespace sotto
