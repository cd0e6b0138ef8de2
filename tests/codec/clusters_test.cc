// What `clusters` promises beyond the laws: its error is the spread within buckets, and clusters are state.
#include "sotto/codec/quantise/clusters.h"
#include "sotto/codec/stages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "sotto/kernels/bits.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

Input vector_of(std::size_t n, std::uint64_t seed) {
  const Layout layout({{"w", 0, {static_cast<std::int64_t>(n)}}}, n);
  return {"gaussian", layout, gaussian(layout, seed)};
}

// A message of one segment, read by docs/wire/clusters.md alone.
struct Read {
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> cluster, bucket;  // of each value

  Read(std::span<const std::byte> message, std::size_t c, std::size_t buckets, unsigned width, std::size_t n) {
    const auto body = message.subspan(sizeof(Header));
    std::vector<std::size_t> begins;
    for (std::size_t k = 0; k < 2 * c; ++k) {
      begins.push_back(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
      sizes.push_back(kernels::load<std::uint16_t>(body.data(), k));
    }
    const auto symbols = body.subspan(4 * c + 4 * buckets);
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t k = 0;
      for (unsigned b = 0; b < width; ++b) {
        const std::size_t bit = i * width + b;
        k |= static_cast<std::size_t>((std::to_integer<unsigned>(symbols[bit / 8]) >> (bit % 8)) & 1U) << b;
      }
      std::uint64_t h = (i + 1) * 0x9e3779b97f4a7c15ULL;
      h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
      h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
      h ^= h >> 31;
      cluster.push_back(k);
      bucket.push_back(begins[k] + (((h >> 32) * sizes[k]) >> 32));
    }
  }
};

// The sum of the squared distances of all values from the mean of their group.
double spread_within(std::span<const float> values, std::span<const std::size_t> group, std::size_t groups) {
  std::vector<double> sum(groups), count(groups);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum[group[i]] += values[i];
    ++count[group[i]];
  }
  double spread = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double d = values[i] - sum[group[i]] / count[group[i]];
    spread += d * d;
  }
  return spread;
}

TEST(Clusters, TheErrorIsTheSpreadWithinBucketsAndBelowThatOfCentres) {
  for (const std::size_t n : {1500, 70000}) {
    const Input input = vector_of(n, 60);
    const auto codec = make_codec(read_stages("clusters(c=5, buckets=600)"));
    const auto message = encode(*codec, input);
    const double error = square_distance(decode(*codec, input, message), input.values);
    const Read read(message, 5, 600, 4, n);
    const double within = spread_within(input.values, read.bucket, 600);
    EXPECT_NEAR(error / within, 1, 1e-5);
    EXPECT_LE(within, spread_within(input.values, read.cluster, 10) * (1 + 1e-12));
    // The same draws make the same clusters. Of all single values, the mean has the least square distance from the
    // values of a group.
    const auto centres = make_codec(read_stages("clusters(c=5, decode=centre)"));
    EXPECT_LT(error, square_distance(decode(*centres, input, encode(*centres, input)), input.values));
  }
}

// The n values of a cluster fall into s buckets as if at random, and each value but the first of a bucket adds the
// variance of the cluster. With S the spread of the cluster, the error is S (n - E[buckets with a value]) / (n - 1), on
// average over orders of the values.
TEST(Clusters, TheErrorIsThatOfValuesThrownIntoBucketsAtRandom) {
  constexpr std::size_t n = 3000;
  constexpr int trials = 60;
  Input input = vector_of(n, 61);
  const auto codec = make_codec(read_stages("clusters(c=3, buckets=900, retrain=1000000)"));
  encode(*codec, input);  // finds the clusters, which are kept from then on
  Philox random(62, Purpose::test);
  std::vector<double> ratios;
  for (int t = 0; t < trials; ++t) {
    for (std::size_t i = n; i > 1; --i) {
      std::swap(input.values[i - 1], input.values[random.below(static_cast<std::uint32_t>(i))]);
    }
    const auto message = encode(*codec, input, {.step = static_cast<std::uint32_t>(t)});
    const Read read(message, 3, 900, 3, n);
    double expected = 0;
    for (std::size_t k = 0; k < 6; ++k) {
      std::vector<float> members;
      for (std::size_t i = 0; i < n; ++i) {
        if (read.cluster[i] == k) members.push_back(input.values[i]);
      }
      const auto m = static_cast<double>(members.size());
      const auto s = static_cast<double>(read.sizes[k]);
      const std::vector<std::size_t> one(members.size());
      expected += spread_within(members, one, 1) * (m - s * (1 - std::pow(1 - 1 / s, m))) / (m - 1);
    }
    ratios.push_back(square_distance(decode(*codec, input, message), input.values) / expected);
  }
  const double mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / trials;
  double square = 0;
  for (const double ratio : ratios) square += (ratio - mean) * (ratio - mean);
  const double error_of_mean = std::sqrt(square / (trials - 1) / trials);
  EXPECT_NEAR(mean, 1, 4 * error_of_mean);  // 4 sigma: once in 16,000
  EXPECT_LT(error_of_mean, 0.02);
}

TEST(Clusters, MoreBucketsLeaveLessError) {
  const Input input = vector_of(5000, 63);
  double last = INFINITY;
  for (const char* buckets : {"600", "2000", "8000", "60000"}) {
    const auto codec = make_codec(read_stages(std::string("clusters(buckets=") + buckets + ")"));
    const double error = square_distance(decode(*codec, input, encode(*codec, input)), input.values);
    EXPECT_LT(error, last);
    last = error;
  }
}

TEST(Clusters, AreOneTwoOrThreeBitsAValue) {
  const Input input = vector_of(100000, 64);
  // The least error that the levels can have for a normal distribution is .3634, .1175, .03454 (Max, 1960).
  for (const auto& [c, best] : {std::pair{1, 0.3634}, {2, 0.1175}, {4, 0.03454}}) {
    const auto codec = make_codec(read_stages("clusters(c=" + std::to_string(c) + ", decode=centre, percentile=100)"));
    const auto message = encode(*codec, input);
    const auto bits = static_cast<std::size_t>(std::lround(std::log2(2 * c)));
    EXPECT_EQ(message.size(), sizeof(Header) + 8 * static_cast<std::size_t>(c) + 100000 * bits / 8);
    const double error = square_distance(decode(*codec, input, message), input.values) / square_norm(input.values);
    EXPECT_GT(error, 0.97 * best);
    EXPECT_LT(error, 1.1 * best);
  }
}

TEST(Clusters, AMeanThatIsNoFloatIsZeroWithoutASign) {
  Input input = vector_of(2000, 1);
  std::ranges::fill(input.values, 0.0F);
  input.values[7] = -1e-44F;
  const auto codec = make_codec(read_stages("clusters"));
  EXPECT_NO_THROW(decode(*codec, input, encode(*codec, input)));
}

TEST(Clusters, ShortSegmentsGoAsTheyAre) {
  const auto codec = make_codec(read_stages("clusters"));
  for (const std::size_t n : {1, 999, 1000, 1001}) {
    const Input input = vector_of(n, 65);
    const auto message = encode(*codec, input);
    EXPECT_EQ(message.size(), sizeof(Header) + (n <= 1000 ? 4 * n : 4 * 30 + 4 * 1000 + (6 * n + 7) / 8));
    EXPECT_EQ(decode(*codec, input, message) == input.values, n <= 1000);
    EXPECT_EQ(codec->contract(input.layout).kind, n <= 1000 ? Contract::Kind::exact : Contract::Kind::contraction);
  }
}

std::vector<std::byte> body_of(Codec& codec, const Input& input, std::uint32_t step) {
  const auto message = encode(codec, input, {.seed = 66, .step = step});
  return {message.begin() + sizeof(Header), message.end()};
}

TEST(Clusters, AreFoundAnewEveryFewSteps) {
  const Input input = vector_of(3000, 66);
  const auto codec = make_codec(read_stages("clusters(retrain=3)"));
  const auto fresh = [&](std::uint32_t step) {
    return body_of(*make_codec(read_stages(codec->traits().text)), input, step);
  };
  const auto first = body_of(*codec, input, 7);
  EXPECT_EQ(first, fresh(7));
  EXPECT_EQ(body_of(*codec, input, 8), first);
  EXPECT_EQ(body_of(*codec, input, 9), first);
  const auto second = body_of(*codec, input, 10);
  EXPECT_NE(second, first);
  EXPECT_EQ(second, fresh(10));
  EXPECT_EQ(body_of(*codec, input, 5), fresh(5));  // a run that began again
}

// After a step with huge values, the small values of later steps must not be decoded to the huge centres; nor must they
// become zero after a step of zeros.
TEST(Clusters, CentresOfOtherMagnitudesAreNotKept) {
  for (const char* expression :
       {"clusters(c=1, percentile=100, raw=0, decode=centre)", "clusters(c=3, raw=0, decode=centre)",
        "hadamard(4) | threshold(keep=0.1) | clusters(c=2, raw=0, decode=centre)"}) {
    const Input input = vector_of(300, 7);
    Input spike = input;
    Input zeros = input;
    Input positive = input;
    std::ranges::fill(zeros.values, 0.0F);
    for (float& value : spike.values) value *= 1e30F;
    for (float& value : positive.values) value = std::max(value, 0.0F);
    for (const Input& small : {input, positive}) {
      for (const Input& before : {spike, zeros}) {
        const auto codec = make_codec(read_stages(expression));
        encode(*codec, before, Key{.step = 1});
        const auto found = encode(*codec, small, Key{.step = 2});
        EXPECT_EQ(found, encode(*make_codec(read_stages(expression)), small, Key{.step = 2})) << expression;
      }
    }
  }
}

TEST(Clusters, AreStateOfACheckpoint) {
  const Input input = vector_of(3000, 67);
  for (const std::string expression : {"clusters(retrain=100)", "clusters(retrain=100, decode=centre)"}) {
    const auto codec = make_codec(read_stages(expression));
    body_of(*codec, input, 0);
    const auto path = std::filesystem::temp_directory_path() / ("sotto-clusters-" + std::to_string(::getpid()));
    StateWriter writer(path);
    codec->visit_state(writer);
    writer.finish();
    const auto resumed = make_codec(read_stages(expression));
    StateReader reader(path);
    resumed->visit_state(reader);
    reader.finish();
    std::filesystem::remove(path);
    const auto expected = body_of(*codec, input, 1);
    EXPECT_EQ(body_of(*resumed, input, 1), expected);
    EXPECT_NE(body_of(*make_codec(read_stages(expression)), input, 1), expected);
  }
}

// Fills in the state with values that a damaged checkpoint may have.
class Liar final : public StateVisitor {
 public:
  Liar(std::uint64_t count, std::vector<float> centres, std::vector<float> sizes)
      : count_(count), centres_(std::move(centres)), sizes_(std::move(sizes)) {}
  void visit(std::string_view name, std::vector<float>& values) override {
    if (++read_ > 4) throw FileError(std::string(name) + " is missing");
    values = name.find("sizes") != std::string_view::npos ? sizes_ : centres_;
  }
  void visit(std::string_view, std::vector<std::uint8_t>&) override {}
  void visit(std::string_view name, std::uint64_t& value) override { value = name == "clusters_places" ? count_ : 0; }

 private:
  std::uint64_t count_;
  std::vector<float> centres_, sizes_;
  int read_ = 0;
};

TEST(Clusters, StateThatCannotBeTheirsIsRefused) {
  const auto read = [](std::uint64_t count, std::vector<float> centres, std::vector<float> sizes,
                       const char* expression = "clusters(c=2, buckets=50)") {
    Liar liar(count, std::move(centres), std::move(sizes));
    make_codec(read_stages(expression))->visit_state(liar);
  };
  EXPECT_NO_THROW(read(1, {-2, -1, 1, 2}, {15, 10, 10, 15}, "clusters(c=2, buckets=50, tables=10/15)"));
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {10, 15, 10, 15}, "clusters(c=2, buckets=50, tables=10/15)"), FileError);
  EXPECT_NO_THROW(read(1, {-2, -1, 1, 2}, {10, 10, 10, 20}));
  EXPECT_NO_THROW(read(1, {}, {}));
  EXPECT_THROW(read(std::uint64_t{1} << 60U, {-2, -1, 1, 2}, {10, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-1, 1, 2}, {10, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-1, -2, 1, 2}, {10, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-2, -1, NAN, 2}, {10, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-2, 1, 1, 2}, {10, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {10, 10, 10, 21}), FileError);
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {10, 10, 9, 21}), FileError);
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {10, 10, 10.5F, 19.5F}), FileError);
  EXPECT_THROW(read(1, {-2, -1, 1, 2}, {NAN, 10, 10, 20}), FileError);
  EXPECT_THROW(read(1, {}, {10, 10, 10, 20}), FileError);
}

TEST(Clusters, OptionsThatDoNotGoTogetherAreRefused) {
  const auto error = [](const std::string& expression) {
    try {
      make_codec(read_stages(expression));
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_NE(error("clusters(c=1)").find("leaves none for outliers"), std::string::npos);
  EXPECT_NE(error("clusters(c=60)").find("120 clusters of at least 10 buckets"), std::string::npos);
  EXPECT_EQ(error("clusters(c=60, decode=centre)"), "");
  EXPECT_EQ(error("clusters(c=256, buckets=65535)"), "");
  EXPECT_NE(error("clusters(c=2, tables=100/300)").find("have 800 buckets: say buckets=800"), std::string::npos);
  EXPECT_EQ(error("clusters(c=2, tables=100/300, buckets=800)"), "");
  for (const char* tables :
       {"100", "100/200/100", "100/3OO", "100/", "/400", "-100/500", "100/5000000000", "400 / 0"}) {
    EXPECT_NE(
        error(fmt::format("clusters(c=2, buckets=800, tables={})", tables)).find(": there must be 2 whole numbers"),
        std::string::npos)
        << tables;
  }
  EXPECT_NE(error("clusters(c=2, tables=9/391, buckets=800)").find("10 buckets or more"), std::string::npos);
  EXPECT_NE(error("clusters(c=2, tables=10/10, buckets=40, decode=centre)").find("leave out tables"),
            std::string::npos);
}

TEST(Clusters, TablesMayBeGiven) {
  const Input input = vector_of(3000, 71);
  const auto codec = make_codec(read_stages("clusters(c=2, buckets=800, tables=300/100)"));
  const auto message = encode(*codec, input);
  const Read read(message, 2, 800, 2, 3000);
  EXPECT_EQ(read.sizes, (std::vector<std::size_t>{100, 300, 300, 100}));
  EXPECT_NEAR(square_distance(decode(*codec, input, message), input.values),
              spread_within(input.values, read.bucket, 800), 1e-3);
  // Another encoder's sizes are refused, though they add up.
  std::vector<std::byte> body(message.begin() + sizeof(Header), message.end());
  std::swap_ranges(body.begin(), body.begin() + 2, body.begin() + 2);
  const auto swapped = sealed(MessageView::parse(message).header(), body);
  try {
    decode(*codec, input, swapped);
    FAIL() << "it was decoded";
  } catch (const WireError& error) {
    EXPECT_NE(std::string_view(error.what()).find("of other sizes"), std::string_view::npos) << error.what();
  }
  // More than 16 bits hold.
  const auto large = make_codec(read_stages("clusters(c=2, buckets=1000000, tables=100000/400000)"));
  const auto long_message = encode(*large, input);
  EXPECT_EQ(kernels::load<std::uint32_t>(long_message.data() + sizeof(Header), 0), 400000U);
  EXPECT_EQ(kernels::load<std::uint32_t>(long_message.data() + sizeof(Header), 1), 100000U);
  EXPECT_LT(square_distance(decode(*large, input, long_message), input.values), 0.02 * square_norm(input.values));
}

}  // namespace
}  // namespace sotto::testing
