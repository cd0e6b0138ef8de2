// Loops over vectors on every SIMD target: clusters, buckets, sums, momentum, sketches.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/clusters.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/sketch.h"
#include "sotto/kernels/vector.h"
#include "tests/kernels/stretches.h"

namespace sotto::kernels {
namespace {

TEST(Targets, Clusters) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    auto drawn = numbers(count, seed);
    for (unsigned width = 1; width <= 9; ++width) {
      // Some boundaries are equal, some are values themselves, and some are not finite.
      std::vector<float> boundaries = numbers((std::size_t{1} << width) - 1, seed + width);
      for (std::size_t k = 0; k < boundaries.size() && k < count; k += 2) boundaries[k] = drawn[k];
      if (width > 2) boundaries[0] = boundaries[1] = infinity;
      std::sort(boundaries.begin(), boundaries.end());
      if (count > 3) drawn[3] = std::numeric_limits<float>::quiet_NaN();
      std::copy(drawn.begin(), drawn.end(), values.span().begin());
      Stretch<std::uint16_t> symbols(count, shift);
      find_clusters(values.span(), boundaries, symbols.span());
      for (std::size_t i = 0; i < count; ++i) {
        const auto below = std::count_if(boundaries.begin(), boundaries.end(), [&](float b) { return drawn[i] > b; });
        ASSERT_EQ(symbols.span()[i], below) << "width " << width << ", value " << drawn[i];
      }
      EXPECT_TRUE(symbols.guarded());
    }
  });
}

TEST(Targets, Buckets) {
  constexpr std::array<Table, 3> tables{Table{0, 3}, {3, 1}, {4, 7}};
  constexpr std::size_t begin = 11;
  const std::vector<float> values = numbers(100, 70, 100);
  std::vector<std::uint16_t> symbols(100);
  for (std::size_t i = 0; i < 100; ++i) symbols[i] = static_cast<std::uint16_t>(i % 3);
  std::vector<BucketSum> sums(11), expected(11);
  add_to_buckets(values, symbols, begin, tables, sums);
  std::vector<float> out(100), expected_out(100), centres{1, 2, 3}, means(11);
  for (std::size_t b = 0; b < 11; ++b) means[b] = static_cast<float>(b) + 0.5F;
  add_buckets(symbols, begin, tables, std::as_bytes(std::span(means)), 0.5F, out);
  add_centres(symbols, std::as_bytes(std::span(centres)), 2, out);
  for (std::size_t i = 0; i < 100; ++i) {
    const Table& table = tables[symbols[i]];
    const std::size_t bucket = table.first + ((hash64(begin + i) >> 32) * table.size >> 32);
    ASSERT_LT(bucket, table.first + table.size);
    expected[bucket].sum += static_cast<double>(values[i]);
    ++expected[bucket].count;
    expected_out[i] = 0.5F * means[bucket] + 2 * centres[symbols[i]];
  }
  for (std::size_t b = 0; b < 11; ++b) {
    EXPECT_EQ(sums[b].sum, expected[b].sum);
    EXPECT_EQ(sums[b].count, expected[b].count);
  }
  EXPECT_EQ(out, expected_out);
}

TEST(Targets, CountedClusters) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Philox random(seed, Purpose::test);
    for (unsigned width = 1; width <= 8; ++width) {
      const std::size_t clusters = std::min<std::size_t>((std::size_t{1} << width) - (width > 1 ? 1 : 0), 20);
      std::vector<std::vector<std::byte>> packed, unpacked;
      std::vector<std::uint8_t> expected(clusters * count);
      for (int row = 0; row < 6; ++row) {
        std::vector<std::uint16_t> symbols(count);
        for (std::size_t i = 0; i < count; ++i) {
          symbols[i] = static_cast<std::uint16_t>(random.below(1U << width));
          if (symbols[i] < clusters) ++expected[symbols[i] * count + i];
        }
        packed.emplace_back(packed_bytes(count, width));
        pack_bits(symbols, width, packed.back());
        Stretch<std::byte> bytes(count, shift);
        unpack_to_bytes(packed.back(), width, bytes.span());
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(std::to_integer<unsigned>(bytes.span()[i]), symbols[i]);
        EXPECT_TRUE(bytes.guarded());
        unpacked.emplace_back(bytes.span().begin(), bytes.span().end());
        EXPECT_EQ(largest_symbol(packed.back(), width, count), count > 0 ? *std::ranges::max_element(symbols) : 0);
      }
      for (const bool as_packed : {true, false}) {
        if (as_packed && 8 % width != 0) continue;
        const unsigned each = as_packed ? width : 8;
        const auto& from = as_packed ? packed : unpacked;
        const std::vector<std::span<const std::byte>> rows(from.begin(), from.end());
        Stretch<std::uint8_t> unordered(clusters * (8 / each) * packed_bytes(count, each), shift, 0);
        count_symbols(std::span(rows).first(5), each, unordered.span());
        count_symbols(std::span(rows).subspan(5), each, unordered.span());
        EXPECT_TRUE(unordered.guarded());
        Stretch<std::uint8_t> counts(clusters * count, shift, 3);
        order_counts(unordered.span(), each, clusters, counts.span());
        EXPECT_TRUE(counts.guarded());
        ASSERT_TRUE(std::ranges::equal(counts.span(), expected)) << width;
      }

      std::vector<Table> tables;
      std::vector<float> means(10 * clusters);
      for (float& mean : means) mean = static_cast<float>(random.normal());
      for (std::size_t k = 0; k < clusters; ++k) tables.push_back({static_cast<std::uint32_t>(10 * k), 10});
      Stretch<float> out(count, shift, 1);
      if (count == 0) continue;
      add_counted_centres(expected, std::span(means).first(clusters), 0.5F, out.span());
      add_counted_buckets(expected, 11, tables, means, 2, out.span());
      for (std::size_t i = 0; i < count; ++i) {
        float centred = 0;
        float hashed = 0;
        for (std::size_t k = 0; k < clusters; ++k) {
          centred += static_cast<float>(expected[k * count + i]) * means[k];
          hashed += static_cast<float>(expected[k * count + i]) * means[tables[k].bucket(11 + i)];
        }
        ASSERT_EQ(out.span()[i], 1 + 0.5F * centred + 2 * hashed);
      }
      EXPECT_TRUE(out.guarded());
    }
  });
}

TEST(Targets, WaitingBuckets) {
  constexpr std::array<Table, 2> tables{Table{0, 5}, {5, 3}};
  const std::vector<float> values = numbers(1000, 71, 100);
  std::vector<std::uint16_t> symbols(1000);
  std::vector<BucketSum> sums(8), waiting(8), expected(8);
  for (std::size_t i = 0; i < 1000; ++i) symbols[i] = static_cast<std::uint16_t>(i % 2);
  for (std::size_t begin = 0; begin < 1000; begin += 100) {  // two calls a chunk
    std::vector<BucketSum> of_chunk(8);
    for (const std::size_t from : {begin, begin + 50}) {
      const auto some = std::span(values).subspan(from, 50);
      const auto its = std::span(symbols).subspan(from, 50);
      add_to_waiting(some, its, from, tables, begin / 100 + 1, sums, waiting);
      add_to_buckets(some, its, from, tables, of_chunk);
    }
    for (std::size_t b = 0; b < 8; ++b) {
      expected[b].sum += of_chunk[b].sum;
      expected[b].count += of_chunk[b].count;
    }
  }
  for (std::size_t b = 0; b < 8; ++b) {
    EXPECT_EQ(sums[b].sum + waiting[b].sum, expected[b].sum);
    EXPECT_EQ(sums[b].count, expected[b].count);
  }
}

TEST(Targets, Vectors) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    const auto a = numbers(count, seed, 1e20F);
    const auto b = numbers(count, seed + 1, 1e20F);
    Stretch<float> out(count, shift);
    std::copy(b.begin(), b.end(), out.span().begin());
    std::vector<float> expected = b;
    add(a, out.span());
    scale(0.3F, out.span());
    axpy(-0.7F, a, out.span());
    xpay(a, 0.9F, out.span());
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] += a[i];
      expected[i] *= 0.3F;
      expected[i] += -0.7F * a[i];
      expected[i] = a[i] + 0.9F * expected[i];
    }
    expect_same_bits<float>(out.span(), expected);
    EXPECT_TRUE(out.guarded());
  });
}

TEST(Targets, Momentum) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    for (const bool nesterov : {false, true}) {
      const auto gradient = numbers(count, seed, 1e20F);
      auto u = numbers(count, seed + 1, 1e20F);
      auto v = numbers(count, seed + 2, 1e20F);
      Stretch<float> velocity(count, shift);
      Stretch<float> held(count, shift);
      std::ranges::copy(u, velocity.span().begin());
      std::ranges::copy(v, held.span().begin());
      (nesterov ? add_nesterov : add_momentum)(0.9F, 0.7F, gradient, velocity.span(), held.span());
      for (std::size_t i = 0; i < count; ++i) {
        (nesterov ? element::add_nesterov : element::add_momentum)(0.9F, 0.7F * gradient[i], u[i], v[i]);
      }
      expect_same_bits<float>(velocity.span(), u);
      expect_same_bits<float>(held.span(), v);
      EXPECT_TRUE(velocity.guarded() && held.guarded());
    }
  });
}

TEST(Targets, SketchPlaces) {
  for (const std::uint32_t width : {1U, 2U, 1000U, sketch_window}) {
    everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
      const ElementStream stream = element_stream(seed, Purpose::test, 0, 0, 0);
      Stretch<std::uint32_t> places(count, shift);
      const std::uint32_t number = 0xFFFFFFF0U;  // the index wraps around
      sketch_places(stream, number, width, places.span());
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t random = stream.quick(number + static_cast<std::uint32_t>(i));
        ASSERT_EQ(places.span()[i], element::sketch_place(random, width));
        ASSERT_LT(places.span()[i] / 2, width);
      }
      EXPECT_TRUE(places.guarded());
    });
  }
}

}  // namespace
}  // namespace sotto::kernels
