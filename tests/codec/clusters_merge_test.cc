// Clusters that ranks agree on: their messages are merged before they are decoded.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/sketch.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

Layout some_layout() {
  Layout layout;
  layout.append("long", {50, 103});
  layout.append("raw", {7});
  layout.append("short", {600});
  return layout;
}

// Messages of several ranks, whose vectors have something in common, and what these decode to one by one.
class Ranks {
 public:
  Ranks(const std::string& expression, std::size_t ranks, std::shared_ptr<ThreadPool> pool = nullptr)
      : layout_(some_layout()), codec_(make_codec(read_stages(expression), std::move(pool))) {
    const auto common = gaussian(layout_, 80);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      vectors_.push_back(gaussian(layout_, 81 + rank, 0.5F + 0.01F * static_cast<float>(rank % 50)));
      for (std::size_t i = 0; i < common.size(); ++i) vectors_.back()[i] += common[i];
    }
  }

  void agree() {
    agreed_.assign(codec_->agreed_count(layout_), 0);
    std::vector<float> numbers(agreed_.size());
    for (auto& vector : vectors_) {
      make_codec(codec_->traits().stages)->propose({vector, &layout_, 0}, numbers);
      for (std::size_t n = 0; n < numbers.size(); ++n) agreed_[n] = std::max(agreed_[n], numbers[n]);
    }
  }
  void encode() {
    const Range whole{0, layout_.size()};
    for (std::size_t rank = 0; rank < vectors_.size(); ++rank) {
      messages_.emplace_back();
      codec_->encode({vectors_[rank], &layout_, 0}, {.rank = static_cast<std::uint16_t>(rank)}, agreed_, {&whole, 1},
                     {&messages_.back(), 1});
      opened_.push_back(codec_->make_opened());
      opened_.back()->open(messages_.back().view(), layout_, whole);
    }
  }
  std::vector<float> sum(float scale) {
    std::vector<float> out(layout_.size(), 0.25F);
    Bucket bucket{out, &layout_, 0};
    codec_->add_sum(opened_, scale, bucket);
    return out;
  }
  std::vector<float> sum_of_each(float scale) {
    std::vector<float> out(layout_.size(), 0.25F);
    Bucket bucket{out, &layout_, 0};
    for (const auto& message : opened_) message->add_to(bucket, scale);
    return out;
  }

  Layout layout_;
  std::unique_ptr<Codec> codec_;
  std::vector<std::vector<float>> vectors_;
  std::vector<float> agreed_;
  std::vector<Message> messages_;
  std::vector<std::unique_ptr<MessageReader>> opened_;
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double most) {
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], most) << i;
}

TEST(MergedClusters, WithCentresTheSumIsThatOfDecodingEach) {
  for (const std::size_t ranks : {2, 3, 64, 300}) {
    for (const int c : {1, 2, 3, 5, 8}) {
      const auto expression =
          fmt::format("clusters(c={}, decode=centre, raw=10, shared=true{})", c, c == 1 ? ", percentile=100" : "");
      Ranks all(expression, ranks);
      all.agree();
      all.encode();
      const auto each = all.sum_of_each(0.5F);
      expect_near(all.sum(0.5F), each, 1e-5 * static_cast<double>(ranks));
      EXPECT_EQ(all.sum_of_each(0.5F), each);  // centres stay as they are
    }
  }
}

// Every message decodes to its part of the sum from then on, so that memories keep what is missing.
TEST(MergedClusters, WithTablesEachMessageHasItsPartOfTheSum) {
  for (const char* code : {"", " | rans", " | zstd"}) {
    for (const int threads : {1, 3}) {
      Ranks all(std::string("clusters(c=5, buckets=300, raw=10, shared=true)") + code, 10,
                std::make_shared<ThreadPool>(threads, 64));
      all.agree();
      all.encode();
      const auto before = all.sum_of_each(0.1F);
      const auto sum = all.sum(0.1F);
      expect_near(all.sum_of_each(0.1F), sum, 1e-5);
      EXPECT_NE(before, sum);
      // The merged means are other values of the same clusters.
      EXPECT_LT(square_distance(before, sum), 0.1 * square_norm(before));
    }
  }
}

// Read by docs/wire/clusters.md alone.
TEST(MergedClusters, TablesBecomeTheMeanOfMeansThatAreNotZero) {
  constexpr std::size_t c = 2, buckets = 60;
  Ranks all("clusters(c=2, buckets=60, least=3, raw=100, shared=true)", 5);
  all.agree();
  all.encode();
  std::vector<float> mean(buckets);
  for (std::size_t b = 0; b < buckets; ++b) {
    double sum = 0, count = 0;
    for (const Message& message : all.messages_) {
      const auto value = kernels::load<float>(message.bytes().data() + sizeof(Header) + 4 * c, b);
      sum += static_cast<double>(value);
      count += value != 0 ? 1 : 0;
    }
    mean[b] = count > 0 ? static_cast<float>(sum / count) : 0;
  }
  all.sum(1);
  std::vector<float> own(all.layout_.size());
  Bucket bucket{own, &all.layout_, 0};
  all.opened_[3]->add_to(bucket, 1);
  for (std::size_t i = 0; i < 50 * 103; ++i) {  // of the first segment, whose tables come first
    ASSERT_NE(std::ranges::find(mean, own[i]), mean.end()) << i;
    ASSERT_EQ(own[i] > 0, all.vectors_[3][i] > 0);
  }
}

TEST(MergedClusters, EqualRanksLoseNothing) {
  Ranks all("clusters(c=4, buckets=500, raw=10, shared=true)", 4);
  std::ranges::fill(all.vectors_, all.vectors_[0]);
  all.agree();
  all.encode();
  const auto each = all.sum_of_each(0.25F);
  expect_near(all.sum(0.25F), each, 1e-6);
}

TEST(MergedClusters, TablesOfOtherSizesAreDecodedOneByOne) {
  Ranks all("clusters(c=4, buckets=500, raw=10, shared=true)", 3);
  all.agree();
  all.encode();
  all.messages_.clear();
  all.opened_.clear();
  std::vector<float> others = all.agreed_;
  std::reverse(others.begin() + 8, others.begin() + 16);  // the sizes of the first segment
  const Range whole{0, all.layout_.size()};
  all.messages_.resize(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    all.codec_->encode({all.vectors_[rank], &all.layout_, 0}, {.rank = static_cast<std::uint16_t>(rank)},
                       rank == 0 ? all.agreed_ : others, {&whole, 1}, {&all.messages_[rank], 1});
    all.opened_.push_back(all.codec_->make_opened());
    all.opened_.back()->open(all.messages_[rank].view(), all.layout_, whole);
  }
  EXPECT_EQ(all.sum(0.5F), all.sum_of_each(0.5F));
}

TEST(MergedClusters, AgreeOnThoseThatReachFarthest) {
  Ranks all("clusters(c=3, buckets=500, raw=10, shared=true)", 4);
  all.agree();
  all.encode();
  for (const Message& message : all.messages_) {
    const auto sizes = message.bytes().subspan(sizeof(Header), 12);
    EXPECT_TRUE(std::ranges::equal(sizes, all.messages_[0].bytes().subspan(sizeof(Header), 12)));
  }
  // Whatever other ranks say, what is sent can be read.
  for (float& number : all.agreed_) number = std::fmod(number * 1000, 3.0F) - 1;
  EXPECT_NO_THROW(all.encode());
  std::ranges::fill(all.agreed_, 0.0F);
  EXPECT_NO_THROW(all.encode());
}

TEST(MergedClusters, AreProposedForSomeStepsAndThenFoundAnew) {
  const Layout layout = some_layout();
  for (const char* decode : {"hash", "centre"}) {
    const auto codec = make_codec(read_stages(fmt::format("clusters(c=3, retrain=3, decode={}, shared=true)", decode)));
    std::vector<float> numbers(codec->agreed_count(layout));
    std::vector<std::vector<float>> proposed;
    for (std::uint64_t step = 0; step < 6; ++step) {
      auto values = gaussian(layout, 90 + step);
      codec->propose({values, &layout, 0}, numbers);
      proposed.push_back(numbers);
    }
    EXPECT_EQ(proposed[0], proposed[1]);
    EXPECT_EQ(proposed[0], proposed[2]);
    EXPECT_NE(proposed[0], proposed[3]);
    EXPECT_EQ(proposed[3], proposed[5]);
    // Values that are not finite are for encode() to report.
    std::vector<float> bad(layout.size(), NAN);
    make_codec(codec->traits().stages)->propose({bad, &layout, 0}, numbers);
    EXPECT_TRUE(std::ranges::all_of(numbers, [](float number) { return number == 0; }));
  }
}

TEST(MergedClusters, AreStateOfACheckpoint) {
  const Layout layout = some_layout();
  const auto codec = make_codec(read_stages("clusters(c=3, retrain=3, shared=true)"));
  const auto propose = [&](Codec& by, std::uint64_t seed) {
    std::vector<float> numbers(by.agreed_count(layout));
    auto values = gaussian(layout, seed);
    by.propose({values, &layout, 0}, numbers);
    return numbers;
  };
  propose(*codec, 90);
  propose(*codec, 91);
  const auto path = std::filesystem::temp_directory_path() / ("sotto-shared-clusters-" + std::to_string(::getpid()));
  StateWriter writer(path);
  codec->visit_state(writer);
  writer.finish();
  const auto resumed = make_codec(codec->traits().stages);
  StateReader reader(path);
  resumed->visit_state(reader);
  reader.finish();
  std::filesystem::remove(path);
  for (const std::uint64_t seed : {92, 93}) EXPECT_EQ(propose(*resumed, seed), propose(*codec, seed));
  EXPECT_NE(propose(*make_codec(codec->traits().stages), 94), propose(*codec, 94));
}

// One unit has the values of all segments, without the padding between them.
TEST(ClustersOfABucket, AreThoseOfItsValuesInARow) {
  const Layout layout = some_layout();  // segments of 5150, 7 and 600 values, and padding
  const Layout row({{"all", 0, {5757}}}, 5757);
  const Input input{"gaussian", layout, gaussian(layout, 96)};
  Input joined{"joined", row, {}};
  for (const Segment& segment : layout.segments()) {
    const auto values = std::span(input.values).subspan(segment.offset, segment.numel());
    joined.values.insert(joined.values.end(), values.begin(), values.end());
  }
  for (const char* options : {"c=5, buckets=600", "c=4, decode=centre", "c=5, buckets=600, shared=true"}) {
    const auto pooled = make_codec(read_stages(fmt::format("clusters({}, scope=bucket)", options)));
    const auto single = make_codec(read_stages(fmt::format("clusters({})", options)));
    const auto message = encode(*pooled, input);
    const auto expected = encode(*single, joined);
    EXPECT_TRUE(
        std::ranges::equal(std::span(message).subspan(sizeof(Header)), std::span(expected).subspan(sizeof(Header))))
        << options;
    const auto decoded = decode(*pooled, input, message);
    const auto in_a_row = decode(*single, joined, expected);
    std::size_t at = 0;
    for (const Segment& segment : layout.segments()) {
      for (std::size_t i = 0; i < segment.numel(); ++i) ASSERT_EQ(decoded[segment.offset + i], in_a_row[at++]);
    }
    EXPECT_EQ(pooled->agreed_count(layout), single->agreed_count(row));
  }
  // After a selection: the values that it kept.
  const auto selected = make_codec(read_stages("threshold(0, dense=0) | clusters(c=5, buckets=600, scope=bucket)"));
  EXPECT_LT(square_distance(decode(*selected, input, encode(*selected, input)), input.values),
            0.1 * square_norm(input.values));
  EXPECT_THROW(make_codec(read_stages("dct | clusters(scope=bucket)")), ConfigError);
}

TEST(ClustersOfABucket, AreMerged) {
  for (const char* decode : {"hash", "centre"}) {
    Ranks all(fmt::format("clusters(c=5, buckets=300, decode={}, shared=true, scope=bucket)", decode), 10);
    all.agree();
    all.encode();
    const auto before = all.sum_of_each(0.1F);
    const auto sum = all.sum(0.1F);
    expect_near(all.sum_of_each(0.1F), sum, 1e-5);
    EXPECT_LT(square_distance(before, sum), (std::string_view(decode) == "hash" ? 0.1 : 1e-9) * square_norm(before));
  }
}

TEST(MergedClusters, NeedClustersThatAreShared) {
  const auto canonical = [](const char* expression) { return make_codec(read_stages(expression))->traits().text; };
  EXPECT_NE(canonical("clusters(c=5, shared=true)").find("bins=100, shared=true, scope=segment)"), std::string::npos);
  EXPECT_NE(canonical("clusters(c=5, scope=bucket)").find("bins=100, shared=false, scope=bucket)"), std::string::npos);
  EXPECT_THROW(make_codec(read_stages("clusters(c=9, shared=true)")), ConfigError);
  EXPECT_THROW(make_codec(read_stages("topk(0.1) | clusters(c=5, shared=true)")), ConfigError);
  EXPECT_FALSE(make_codec(read_stages("clusters(c=5)"))->traits().merges);
  EXPECT_TRUE(make_codec(read_stages("clusters(c=5, shared=true) | rans"))->traits().merges);
}

// The means of a message's buckets, by docs/wire/clusters.md alone: sums in chunks of 65536 values.
std::vector<float> means_of(std::span<const float> values, std::span<const std::byte> message, std::size_t clusters) {
  const std::byte* const body = message.data() + sizeof(Header);
  std::vector<std::size_t> begins{0};
  for (std::size_t k = 0; k < clusters; ++k) begins.push_back(begins[k] + kernels::load<std::uint32_t>(body, k));
  const std::size_t buckets = begins.back();
  const std::byte* const symbols = body + 4 * (clusters + buckets);
  std::vector<double> sums(buckets), count(buckets);
  for (std::size_t first = 0; first < values.size(); first += 65536) {
    std::vector<double> chunk(buckets);
    for (std::size_t i = first; i < std::min(first + 65536, values.size()); ++i) {
      const std::size_t k = (std::to_integer<unsigned>(symbols[i / 4]) >> (i % 4 * 2)) & 3U;
      const std::size_t b = begins[k] + ((kernels::hash64(i) >> 32) * (begins[k + 1] - begins[k]) >> 32);
      chunk[b] += static_cast<double>(values[i]);
      ++count[b];
    }
    for (std::size_t b = 0; b < buckets; ++b) sums[b] += chunk[b];
  }
  std::vector<float> means(buckets);
  for (std::size_t b = 0; b < buckets; ++b) means[b] = count[b] > 0 ? static_cast<float>(sums[b] / count[b]) : 0.0F;
  return means;
}

// With more buckets than 16 bits number, sizes have 32 bits.
TEST(Clusters, TablesMayHaveMillionsOfBuckets) {
  const Layout layout({{"w", 0, {200000}}}, 200000);
  const Input input{"gaussian", layout, gaussian(layout, 95)};
  double last = INFINITY;
  for (const std::size_t buckets : {65535, 65536, 1000000}) {
    const auto codec = make_codec(read_stages(fmt::format("clusters(c=2, buckets={})", buckets)));
    const auto message = encode(*codec, input);
    const std::size_t size = buckets == 65535 ? 2 : 4;
    EXPECT_EQ(message.size(), sizeof(Header) + 4 * size + 4 * buckets + 50000);
    const double error = square_distance(decode(*codec, input, message), input.values) / square_norm(input.values);
    EXPECT_LT(error, last * 1.01);
    last = error;
    if (size == 2) continue;
    const auto means = means_of(input.values, message, 4);
    ASSERT_EQ(means.size(), buckets);
    for (std::size_t b = 0; b < buckets; ++b) {
      ASSERT_EQ(kernels::load<float>(message.data() + sizeof(Header) + 16, b), means[b]) << b;
    }
  }
  EXPECT_LT(last, 0.05);
  EXPECT_THROW(make_codec(read_stages("clusters(buckets=10000001)")), ConfigError);
}

}  // namespace
}  // namespace sotto::testing
