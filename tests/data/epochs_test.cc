#include "app/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "app/data/order.h"
#include "sotto/core/random.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

TEST(Epochs, BeginWithWhatIsLeftOfOne) {
  const Epochs epochs{.each = 5, .first = 100, .epoch = 3, .left = 2};
  EXPECT_EQ(epochs.at(100), (Epochs::Place{3, 0, 2}));
  EXPECT_EQ(epochs.at(101), (Epochs::Place{3, 1, 2}));
  EXPECT_EQ(epochs.at(102), (Epochs::Place{4, 0, 5}));
  EXPECT_EQ(epochs.at(111), (Epochs::Place{5, 4, 5}));
  EXPECT_EQ(epochs.begin_of(3), 100U);
  EXPECT_EQ(epochs.begin_of(5), 107U);
  const Epochs none{.each = 5, .first = 100, .epoch = 3, .left = 0};
  EXPECT_EQ(none.at(100), (Epochs::Place{4, 0, 5}));
}

constexpr std::size_t example_count = 1003;

ExampleOrder order_of(const OrderOptions& options, const ExampleOrder* /*kind*/) { return {example_count, options}; }
LengthOrder order_of(const OrderOptions& options, const LengthOrder* /*kind*/) {
  Philox random(1, Purpose::test);
  std::vector<std::size_t> lengths(example_count);
  for (std::size_t& length : lengths) length = 2 + random.below(30);
  return {lengths, options};
}

template <class Order>
class Orders : public ::testing::Test {};
using BothOrders = ::testing::Types<ExampleOrder, LengthOrder>;
TYPED_TEST_SUITE(Orders, BothOrders);

// What `ranks` ranks read of an epoch, at all positions of it or fewer.
struct Read {
  std::vector<std::uint32_t> examples;
  std::uint64_t positions = 0;  // that the epoch has
};
template <class Order>
Read read(int ranks, std::size_t batch, const ReadingStart& start, std::uint64_t most) {
  Read found;
  for (int rank = 0; rank < ranks; ++rank) {
    Order order = order_of({.seed = 3, .rank = 1, .ranks = 5, .batch = batch}, static_cast<Order*>(nullptr));
    order.go_on(start, {rank, ranks});
    found.positions = order.epochs().left;
    for (std::uint64_t i = 0; i < std::min(most, found.positions); ++i) {
      EXPECT_EQ(order.epochs().at(start.position + i).epoch, start.epoch);
      const auto at = order.at(start.position + i);
      found.examples.insert(found.examples.end(), at.begin(), at.end());
    }
  }
  return found;
}

// Every example once, but for a remainder that fills no batch of all ranks.
TYPED_TEST(Orders, ReadEachExampleOnceWhileRanksChange) {
  std::vector<std::uint32_t> all;
  ReadingStart start{.position = 1000, .epoch = 7};
  const auto go = [&](int ranks, std::size_t batch, std::uint64_t positions) {
    const Read part = read<TypeParam>(ranks, batch, start, positions);
    all.insert(all.end(), part.examples.begin(), part.examples.end());
    start.read.push_back({static_cast<std::uint64_t>(ranks), batch, std::min(positions, part.positions)});
    start.position += 17;
  };
  go(4, 10, 6);
  go(2, 10, 9);
  go(3, 20, 2);
  go(4, 10, 1000);
  const std::size_t count = all.size();
  std::ranges::sort(all);
  const auto twice = std::ranges::unique(all);
  EXPECT_TRUE(twice.empty()) << "an example was read twice";
  EXPECT_LE(count, example_count);
  EXPECT_GT(count, example_count - 4 * (10 + 30)) << "batches of short sentences have up to 40";
}

TYPED_TEST(Orders, GoOnWithWholeEpochs) {
  const OrderOptions options{.seed = 3, .rank = 1, .ranks = 2, .batch = 10};
  TypeParam order = order_of({.seed = 3, .rank = 3, .ranks = 4, .batch = 10}, static_cast<TypeParam*>(nullptr)),
            undisturbed = order_of(options, static_cast<TypeParam*>(nullptr));
  order.go_on({.position = 500, .epoch = 7, .read = {{4, 10, 20}}}, {options.rank, options.ranks});
  const std::uint64_t begin = order.epochs().begin_of(8), each = order.epochs().each;
  EXPECT_EQ(each, undisturbed.epochs().each);
  for (const std::uint64_t i : {std::uint64_t{0}, each - 1, each}) {
    EXPECT_TRUE(std::ranges::equal(order.at(begin + i), undisturbed.at(8 * each + i))) << i;
  }
}

TYPED_TEST(Orders, NothingReadIsTheUndisturbedOrder) {
  const OrderOptions options{.seed = 3, .rank = 1, .ranks = 2, .batch = 10};
  TypeParam order = order_of(options, static_cast<TypeParam*>(nullptr)),
            undisturbed = order_of(options, static_cast<TypeParam*>(nullptr));
  const std::uint64_t each = order.epochs().each;
  order.go_on({.position = 7 * each, .epoch = 7}, {options.rank, options.ranks});
  for (std::uint64_t i = 0; i < each; ++i) {
    EXPECT_TRUE(std::ranges::equal(order.at(7 * each + i), undisturbed.at(7 * each + i))) << i;
  }
}

TYPED_TEST(Orders, RefuseMoreThanAnEpochHas) {
  TypeParam order = order_of({.ranks = 2, .batch = 10}, static_cast<TypeParam*>(nullptr));
  for (const Reading& read :
       {Reading{4, 10, 1000}, Reading{1, 1, ~std::uint64_t{0}}, Reading{~std::uint64_t{0}, 2, 1}}) {
    EXPECT_THROW(order.go_on({.read = {read}}, {0, 2}), FileError);
  }
  EXPECT_NO_THROW(order.go_on({.position = 3, .epoch = 2, .read = {{4, 10, 20}}}, {0, 2}));
}

}  // namespace
}  // namespace sotto
