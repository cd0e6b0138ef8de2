// Numbers that the codecs of all ranks agree on before they encode, through the aggregators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/round.h"
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
  std::unique_ptr<MessageReader> make_opened() const override { return nullptr; }

  std::vector<float> given;

 private:
  bool asks_;
};

// Three ranks encode segments {rank, -1 | 10 - rank, 0}: the numbers that each rank's codec was given, and the bytes
// that the agreement took.
struct Agreement {
  std::vector<std::vector<float>> given{3};
  std::vector<std::uint64_t> sent{0, 0, 0};
};

Agreement run(bool asks, bool alone) {
  const Layout layout({{"first", 0, {2}}, {"second", 2, {2}}}, 4);
  Agreement outcome;
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
  const Agreement outcome = run(true, true);
  EXPECT_EQ(outcome.given, (std::vector<std::vector<float>>{{1, 10}, {1, 9}, {2, 8}}));
  EXPECT_EQ(outcome.sent, std::vector<std::uint64_t>(3, 0));
}

TEST(Encoder, SendsNothingForACodecThatAsksForNothing) {
  const Agreement outcome = run(false, false);
  EXPECT_EQ(outcome.given, std::vector<std::vector<float>>(3));
  EXPECT_EQ(outcome.sent, std::vector<std::uint64_t>(3, 0));
}

using test::average_all, test::sample_gradient, test::sample_layout;

// The largest magnitude of each segment on any rank.
std::vector<float> scales_of(const Layout& layout, int ranks) {
  std::vector<float> scales;
  for (const Segment& segment : layout.segments()) {
    float& most = scales.emplace_back(0.0F);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto values = sample_gradient(layout, rank, 0);
      for (std::size_t i = 0; i < segment.numel(); ++i) most = std::max(most, std::abs(values[segment.offset + i]));
    }
  }
  return scales;
}

// Where ternary values share one scale, their means are k / ranks times that scale, k a whole number.
TEST(SharedScale, MeansOfTernaryValuesAreMultiplesOfOneScale) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  ASSERT_GT(buckets.size(), 1U);
  for (const char* method : {"terngrad(clip=0, shared=true)", "terngrad(clip=0, shared=true, pack=trits)"}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      std::vector<std::vector<float>> means(static_cast<std::size_t>(ranks));
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        auto& mean = means[static_cast<std::size_t>(communicator.rank())];
        const auto aggregator = make_aggregator(read_recipe(method, "gather"), buckets, communicator);
        mean = sample_gradient(layout, communicator.rank(), 0);
        average_all(*aggregator, buckets, mean, 0, communicator);
      });
      for (const auto& mean : means) ASSERT_EQ(mean, means[0]) << method << ", " << ranks << " ranks";
      const auto scales = scales_of(layout, ranks);
      std::size_t between = 0;  // neither 0 nor a whole scale
      for (std::size_t s = 0; s < scales.size(); ++s) {
        const Segment& segment = layout.segments()[s];
        for (std::size_t i = 0; i < segment.numel(); ++i) {
          const double multiple = static_cast<double>(means[0][segment.offset + i]) * ranks / scales[s];
          ASSERT_NEAR(multiple, std::round(multiple), 1e-5) << segment.name << " " << i;
          ASSERT_LE(std::abs(multiple), ranks + 1e-5);
          between += std::abs(std::round(multiple)) > 0 && std::abs(std::round(multiple)) < ranks ? 1U : 0U;
        }
      }
      EXPECT_EQ(between > 0, ranks > 1);
    }
  }
}

// Where each rank has its own scale, the means are not multiples of a common number.
TEST(SharedScale, IsNotSharedUnlessAsked) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  const auto scales = scales_of(layout, 3);
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe("terngrad(clip=0)", "gather"), buckets, communicator);
    auto values = sample_gradient(layout, communicator.rank(), 0);
    average_all(*aggregator, buckets, values, 0, communicator);
    std::size_t odd = 0;
    for (std::size_t s = 0; s < scales.size(); ++s) {
      const Segment& segment = layout.segments()[s];
      for (std::size_t i = 0; i < segment.numel(); ++i) {
        const double multiple = static_cast<double>(values[segment.offset + i]) * 3 / scales[s];
        odd += std::abs(multiple - std::round(multiple)) > 1e-5 ? 1U : 0U;
      }
    }
    EXPECT_GT(odd, 0U);
  });
}

// The owner of a chunk encodes its mean alone, with its own scale. Every rank gets the same bits nevertheless, and
// nothing is lost. The agreement costs one float a segment.
TEST(SharedScale, GoesThroughScatterReduceAndAMemory) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1200);
  for (const char* name : {"gather", "scatter_reduce", "auto"}) {
    for (const char* method : {"terngrad(shared=true)", "ef | terngrad(shared=true, pack=trits)"}) {
      std::vector<std::vector<float>> means(3);
      run_threads(3, 20s, [&](Communicator& communicator) {
        const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
        auto& mean = means[static_cast<std::size_t>(communicator.rank())];
        for (int step = 0; step < 3; ++step) {
          mean = sample_gradient(layout, communicator.rank(), step);
          average_all(*aggregator, buckets, mean, step, communicator);
        }
      });
      EXPECT_EQ(means[1], means[0]) << name << ", " << method;
      EXPECT_EQ(means[2], means[0]) << name << ", " << method;
    }
  }
}

// A gradient that is not finite on one rank is an error of that rank; the numbers that it proposed do not make the
// others hang.
TEST(SharedScale, IsFiniteWhateverTheGradientIs) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  run_threads(2, 20s, [&](Communicator& communicator) {
    const auto codec = std::shared_ptr<Codec>(make_codec(read_stages("terngrad(shared=true)")));
    auto values = sample_gradient(layout, communicator.rank(), 0);
    if (communicator.rank() == 1) values[layout.segments()[2].offset + 7] = NAN;
    std::vector<float> numbers(codec->agreed_count(layout));
    codec->propose({values, &layout, 0}, numbers);
    communicator.all_reduce(std::span(numbers), ReduceOp::max);
    const Range whole{0, layout.size()};
    Message message;
    const auto encode = [&] { codec->encode({values, &layout, 0}, {.step = 4}, numbers, {&whole, 1}, {&message, 1}); };
    if (communicator.rank() == 0) {
      EXPECT_NO_THROW(encode());
    } else {
      EXPECT_NE(test::message_of(encode).find("fc.weight is not finite at step 4"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace sotto
