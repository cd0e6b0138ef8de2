#include "sotto/train/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
using test::message_of;

class OneExample final : public Dataset {
 public:
  std::size_t size() const override { return 1; }
  ImageShape shape() const override { return {1, 1, 1}; }
  std::int64_t classes() const override { return 2; }
  void read(std::size_t, std::span<float> image, std::int64_t& label) const override { image[0] = 1, label = 0; }
};

// Segments a, b, c and d of 16 floats. Forward reads a, c and d, and not b; backward adds 1 to the gradient of d, then
// of c, then of a.
class Chain final : public Model {
 public:
  Chain() {
    for (const char* name : {"a", "b", "c", "d"}) layout_.append(name, {16});
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
  }
  const std::string& name() const override { return name_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffer_layout() const override { return no_buffers_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<float> buffers() override { return {}; }
  double accumulate_gradient(const Batch&, float scale, std::uint64_t, const Calls& calls) override {
    for (const std::size_t segment : {0, 2, 3}) calls.needed(segment);
    for (const std::size_t segment : {3, 2, 0}) {
      for (float& value : part(segment)) value += scale;
      if (calls.ready) calls.ready(segment);
    }
    return loss;
  }
  Score evaluate(const Batch&) override { return {}; }

  std::span<float> part(std::size_t segment) {
    const Range range = layout_.segments()[segment].range();
    return std::span(gradient_).subspan(range.begin, range.size());
  }

  double loss = 0.5;

 private:
  std::string name_ = "chain";
  Layout layout_, no_buffers_;
  std::vector<float> parameters_, gradient_;
};

class ReplicaTest : public testing::Test {
 protected:
  // A bucket for each segment, d first: bucket 3 - s is that of segment s.
  Replica replica(std::uint64_t accumulate = 1, std::size_t most = most_elements) {
    return {model,      make_optimiser("--optimiser", "sgd", model.layout().size()),
            loader,     plan_buckets(model.layout(), 64, most),
            accumulate, 1,
            0};
  }
  std::vector<float> bucket(std::size_t index) {
    const auto part = model.part(3 - index);
    return {part.begin(), part.end()};
  }

  const std::vector<float> zeros = std::vector<float>(16, 0), ones = std::vector<float>(16, 1),
                           old = std::vector<float>(16, 9);
  OneExample data;
  Loader loader{data, {.batch = 1}};
  Chain model;
};

// Until a bucket is said to be free its gradient may be on its way to the other ranks.
TEST_F(ReplicaTest, AGradientStaysAsItIsUntilItsBucketWasAskedFor) {
  Replica worker = replica();
  std::ranges::fill(model.gradient(), 9.0F);
  std::vector<std::size_t> needed, ready;
  worker.compute_gradient(0, {.needed =
                                  [&](std::size_t index) {
                                    EXPECT_TRUE(ready.empty()) << index;
                                    EXPECT_EQ(bucket(index), old) << index;
                                    needed.push_back(index);
                                  },
                              .ready =
                                  [&](std::size_t index) {
                                    EXPECT_EQ(bucket(index), index == 2 ? zeros : ones) << index;
                                    ready.push_back(index);
                                  }});
  EXPECT_EQ(needed, (std::vector<std::size_t>{3, 1, 0, 2})) << "in the order of forward, then what it does not use";
  EXPECT_EQ(ready, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST_F(ReplicaTest, MicroStepsAskOnceAndAddUp) {
  Replica worker = replica(4);
  std::ranges::fill(model.gradient(), 9.0F);
  std::vector<int> asked(4);
  worker.compute_gradient(0, {.needed = [&](std::size_t index) { ++asked[index]; }});
  EXPECT_EQ(asked, (std::vector<int>{1, 1, 1, 1}));
  for (const std::size_t index : {0, 1, 3}) EXPECT_EQ(bucket(index), ones) << index;
  EXPECT_EQ(bucket(2), zeros);
}

// d is buckets 0 and 1, and so on.
TEST_F(ReplicaTest, ASegmentThatIsTooLongIsSeveralBuckets) {
  Replica worker = replica(1, 10);
  ASSERT_EQ(worker.buckets().size(), 8U);
  std::ranges::fill(model.gradient(), 9.0F);
  std::vector<std::size_t> needed, ready;
  worker.compute_gradient(0, {.needed = [&](std::size_t index) { needed.push_back(index); },
                              .ready =
                                  [&](std::size_t index) {
                                    EXPECT_EQ(bucket(index / 2), index / 2 == 2 ? zeros : ones) << index;
                                    ready.push_back(index);
                                  }});
  EXPECT_EQ(needed, (std::vector<std::size_t>{6, 7, 2, 3, 0, 1, 4, 5}));
  EXPECT_EQ(ready, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(ReplicaTest, CopiesAGradientBeforeAnybodyMayChangeIt) {
  Replica worker = replica();
  std::vector<float> copy(model.layout().size(), 9.0F);
  worker.copy_next_gradient(copy);
  worker.compute_gradient(0, {.ready = [&](std::size_t index) { std::ranges::fill(model.part(3 - index), 5.0F); }});
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0F), 3 * 16);
  worker.compute_gradient(1, {});
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0F), 3 * 16) << "of one step alone";
}

TEST_F(ReplicaTest, ALossThatIsNotFiniteIsAnError) {
  Replica worker = replica();
  model.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(worker.compute_gradient(7, {}), NumericError);
  EXPECT_NE(message_of([&] { worker.compute_gradient(7, {}); }).find("at step 7"), std::string::npos);
}

}  // namespace
}  // namespace sotto
