#include "app/train/group_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// What a rank holds: its vectors need not be as long as those of others before it is a newcomer.
struct Held {
  std::vector<float> parameters, moments;
  std::vector<std::uint8_t> bytes;
  std::uint64_t count = 0;
  bool operator==(const Held&) const = default;

  void visit_shared(StateCopy& state) {
    state.visit("parameters", std::span(parameters));
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
  const Case one = GetParam();
  const int donor = one.donor;
  const std::size_t elements = one.elements;
  run_threads(one.ranks, std::chrono::seconds(20), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const bool is_new = std::ranges::find(one.newcomers, rank) != one.newcomers.end();
    Held held = held_by(rank, elements);
    const Held given = held_by(donor, elements);
    auto own = communicator.clone();
    const Communicator& link = *own;
    NewcomerState state(std::move(own), donor, one.newcomers, [&](StateCopy& copy) { held.visit_shared(copy); });
    if (rank == donor) held = held_by(7, elements);  // it continues
    while (!state.wait_for(std::chrono::seconds(1))) continue;
    if (is_new) state.give([&](StateCopy& copy) { held.visit_shared(copy); });
    if (rank == donor) held = given;
    EXPECT_TRUE(held == (is_new ? given : held_by(rank, elements))) << "rank " << rank;

    // Each link carries it once.
    const std::uint64_t all = 4 * (given.parameters.size() + given.moments.size()) + given.bytes.size() + 4 * 8;
    const Traffic traffic = link.traffic();
    EXPECT_EQ(traffic.bytes_sent - 8 * traffic.messages_sent,
              rank == donor || (is_new && rank != one.newcomers.back()) ? all : 0);
    EXPECT_EQ(traffic.bytes_received > 0, is_new);
  });
}

constexpr std::size_t chunks = (std::size_t{3} << 18) + 5;  // of floats: 3 MiB, and a bit
INSTANTIATE_TEST_SUITE_P(All, NewcomerStateLaw,
                         testing::Values(Case{2, 0, {1}, chunks}, Case{4, 0, {3}, chunks},
                                         Case{5, 1, {0, 2, 4}, chunks}, Case{5, 4, {0, 1, 2, 3}, chunks},
                                         Case{3, 2, {1}, 0}, Case{3, 0, {2, 1}, 1}));

TEST(NewcomerState, EndsAtOnceIfTheGroupChanges) {
  run_threads(3, std::chrono::seconds(60), [](Communicator& communicator) {
    std::vector<float> values(50 * chunks);
    const Timer timer;
    {
      const auto visit = [&](StateCopy& copy) { copy.visit("v", std::span(values)); };
      const NewcomerState state(communicator.clone(), 0, {2, 1}, visit);
    }
    EXPECT_LT(timer.seconds(), 30);
  });
}

}  // namespace
}  // namespace sotto
