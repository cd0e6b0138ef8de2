#include "sotto/comm/subgroup.h"

#include <gtest/gtest.h>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/comm/laws.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

// Every second rank is in one group, the ranks between them in another. Each group keeps the laws.
TEST(Subgroup, KeepsTheLawsOfACommunicator) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    run_threads(2 * ranks, 20s, [&](Communicator& all) {
      std::vector<int> odd, even;
      for (int rank = 0; rank < 2 * ranks; ++rank) (rank % 2 == 1 ? odd : even).push_back(rank);
      Subgroup group(all, all.rank() % 2 == 1 ? odd : even);
      EXPECT_EQ(group.size(), ranks);
      EXPECT_EQ(group.rank(), all.rank() / 2);
      EXPECT_EQ(group.number(group.rank()), all.rank());
      EXPECT_EQ(group.name(), "threads");
      for (const Law& law : laws()) {
        if (law.name != "clones_work_beside") law.check(group);
      }
      std::vector<float> values{static_cast<float>(all.rank()), 1};
      group.all_reduce(std::span(values));
      EXPECT_EQ(values, (std::vector<float>{static_cast<float>(ranks * (ranks - 1) + all.rank() % 2 * ranks),
                                            static_cast<float>(ranks)}));
      std::vector<int> gathered(static_cast<std::size_t>(ranks));
      const int mine = all.rank();
      group.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(gathered)));
      EXPECT_EQ(gathered, all.rank() % 2 == 1 ? odd : even);
      group.broadcast(std::as_writable_bytes(std::span(gathered)), ranks - 1);
      group.barrier();
      EXPECT_EQ(group.traffic().bytes_sent, all.traffic().bytes_sent) << "it is counted there, too";
      EXPECT_EQ(group.traffic().bytes_received, all.traffic().bytes_received);
    });
  }
}

// Ranks are numbered in the order given, and sums are made in that order.
TEST(Subgroup, NumbersRanksAsTheyAreGiven) {
  run_threads(4, 20s, [](Communicator& all) {
    if (all.rank() == 1) return;
    Subgroup group(all, {3, 0, 2});
    EXPECT_EQ(group.rank(), all.rank() == 3 ? 0 : all.rank() == 0 ? 1 : 2);
    std::vector<float> values{all.rank() == 3 ? 1e8F : all.rank() == 0 ? -1e8F : 1.0F};
    group.all_reduce(std::span(values));
    EXPECT_EQ(values[0], 1.0F) << "(1e8 - 1e8) + 1";
  });
}

TEST(Subgroup, MessagesOfBothStayInOrderAndErrorsNameRanksOfTheJob) {
  run_threads(3, 20s, [](Communicator& all) {
    if (all.rank() == 1) return;
    Subgroup group(all, {0, 2});
    const std::byte first{1}, second{2};
    std::byte a{}, b{};
    const int other = 2 - all.rank();
    const std::vector<Send> one{{1 - group.rank(), {&first, 1}}}, two{{other, {&second, 1}}};
    std::vector<Recv> to_one{{1 - group.rank(), {&a, 1}}}, to_two{{other, {&b, 1}}};
    group.exchange(one, to_one);
    all.exchange(two, to_two);
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, second);
    all.at_step(9);
    if (all.rank() == 2) return;  // without telling the others
    try {
      group.exchange({}, to_one);
      ADD_FAILURE() << "rank 2 said nothing";
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 2 at step 9"), std::string::npos) << error.what();
    }
  });
}

TEST(Subgroup, IsOfRanksThatThereAre) {
  run_threads(2, 20s, [](Communicator& all) {
    EXPECT_THROW(Subgroup(all, {1 - all.rank()}), std::logic_error);
    EXPECT_THROW(Subgroup(all, {0, 1, 2}), std::logic_error);
    EXPECT_THROW(Subgroup(all, {0, 1, 0}), std::logic_error);
    Subgroup group(all, {0, 1});
    EXPECT_THROW(group.clone(), std::logic_error);
  });
}

}  // namespace
}  // namespace sotto
