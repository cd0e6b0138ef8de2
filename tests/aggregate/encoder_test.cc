#include "sotto/aggregate/encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

// A codec that asks ranks to agree on the largest magnitude of each segment. It makes no message; it keeps the numbers
// that it was given.
class Asking final : public Codec {
 public:
  explicit Asking(bool asks) : asks_(asks) {}
  Contract contract(const Layout&) const override { return {}; }
  std::size_t max_bytes(const Layout&, Range) const override { return 0; }
  std::size_t agreed_count(const Layout& layout) const override { return asks_ ? layout.segments().size() : 0; }
  void propose(const Bucket& bucket, std::span<float> numbers) override {
    for (std::size_t s = 0; s < numbers.size(); ++s) {
      numbers[s] = 0;
      const Range range = bucket.layout->segments()[s].range();
      for (const float value : bucket.values.subspan(range.begin, range.size())) {
        numbers[s] = std::max(numbers[s], std::abs(value));
      }
    }
  }
  void encode(const Bucket&, const Key&, std::span<const float> agreed, std::span<const Range>,
              std::span<Message>) override {
    given.assign(agreed.begin(), agreed.end());
  }
  std::unique_ptr<Opened> make_opened() const override { return nullptr; }

  std::vector<float> given;

 private:
  bool asks_;
};

// Three ranks encode segments {rank, -1 | 10 - rank, 0}: the numbers that each rank's codec was given, and the bytes
// that the agreement took.
struct Outcome {
  std::vector<std::vector<float>> given{3};
  std::vector<std::uint64_t> sent{0, 0, 0};
};

Outcome run(bool asks, bool alone) {
  const Layout layout({{"first", 0, {2}}, {"second", 2, {2}}}, 4);
  Outcome outcome;
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto own = static_cast<float>(communicator.rank());
    std::vector<float> values{own, -1, 10 - own, 0};
    const auto codec = std::make_shared<Asking>(asks);
    Encoder encoder(codec);
    Timings timings;
    for (int step = 0; step < 2; ++step) {
      const Bucket bucket{values, &layout, 0};
      if (alone) {
        encoder.encode_alone(bucket, {}, {}, {});
      } else {
        encoder.encode(bucket, {}, {}, {}, communicator, timings);
      }
      outcome.given[rank] = codec->given;
    }
    outcome.sent[rank] = communicator.traffic().bytes_sent;
  });
  return outcome;
}

TEST(Encoder, GivesEveryCodecTheLargestNumberThatAnyRankProposes) {
  EXPECT_EQ(run(true, false).given, std::vector<std::vector<float>>(3, {2, 10}));
}

TEST(Encoder, GivesACodecThatEncodesAloneItsOwnNumbers) {
  const Outcome outcome = run(true, true);
  EXPECT_EQ(outcome.given, (std::vector<std::vector<float>>{{1, 10}, {1, 9}, {2, 8}}));
  EXPECT_EQ(outcome.sent, std::vector<std::uint64_t>(3, 0));
}

TEST(Encoder, SendsNothingForACodecThatAsksForNothing) {
  const Outcome outcome = run(false, false);
  EXPECT_EQ(outcome.given, std::vector<std::vector<float>>(3));
  EXPECT_EQ(outcome.sent, std::vector<std::uint64_t>(3, 0));
}

}  // namespace
}  // namespace sotto
