// Reductions and selections on every SIMD target.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/select.h"
#include "tests/kernels/stretches.h"

namespace sotto::kernels {
namespace {

TEST(Targets, FindWhatIsNotFinite) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t) {
    Stretch<std::byte> halves(2 * count, shift, std::byte{0x3A});
    Stretch<std::byte> floats(4 * count, shift, std::byte{0x3A});
    EXPECT_TRUE(all_finite_f16(halves.span()));
    EXPECT_TRUE(all_finite_bf16(halves.span()));
    EXPECT_TRUE(all_finite_f32(floats.span()));
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      if (count == 0) break;
      Stretch<std::byte> bad = halves;
      store(bad.span().data(), at, std::uint16_t{0xFC00});
      EXPECT_FALSE(all_finite_f16(bad.span()));
      EXPECT_TRUE(all_finite_bf16(bad.span()));
      store(bad.span().data(), at, std::uint16_t{0x7F81});
      EXPECT_FALSE(all_finite_bf16(bad.span()));
      Stretch<std::byte> worse = floats;
      store(worse.span().data(), at, -infinity);
      EXPECT_FALSE(all_finite_f32(worse.span()));
      Stretch<std::byte> eights = halves;
      EXPECT_TRUE(valid_int8(eights.span()));
      eights.span()[at] = std::byte{0x80};
      EXPECT_FALSE(valid_int8(eights.span()));
    }
  });
}

TEST(Targets, Intervals) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    const std::size_t some = (count + block - 1) / block;
    Stretch<std::byte> ends(8 * some, 3 - shift);
    ASSERT_TRUE(interval_blocks(values.span(), block, ends.span()));
    for (std::size_t b = 0; b < some; ++b) {
      const auto begin = drawn.begin() + static_cast<std::ptrdiff_t>(b * block);
      const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(std::min(count, (b + 1) * block));
      for (const auto& [at, value] :
           {std::pair{2 * b, *std::min_element(begin, end)}, std::pair{2 * b + 1, *std::max_element(begin, end)}}) {
        const auto found = load<float>(ends.span().data(), at);
        EXPECT_EQ(found, value);
        EXPECT_FALSE(found == 0 && std::signbit(found));
      }
    }
    EXPECT_TRUE(ends.guarded());
    if (count == 0) return;
    for (const float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")}) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        Stretch<float> worse = values;
        worse.span()[at] = bad;
        EXPECT_FALSE(interval_blocks(worse.span(), block, ends.span()));
      }
    }
  });
}

// The sum by the lanes of reduce.h, one value after the other.
template <class Term>
double reference_sum(std::span<const float> values, Term term) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += sum_chunk) {
    std::array<double, 16> lane{};
    const std::size_t end = std::min(begin + sum_chunk, values.size());
    for (std::size_t i = begin; i < end; ++i) lane[i % 16] += term(static_cast<double>(values[i]));
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
    }
    sum += lane[0];
  }
  return sum;
}

TEST(Targets, SumsOfSeveralChunks) {
  on_every_target([] {
    for (const std::size_t count : {sum_chunk, sum_chunk + 1, 2 * sum_chunk, 2 * sum_chunk + 3001}) {
      const auto values = numbers(count, count);
      const double sum = reference_sum(values, [](double x) { return std::abs(x); });
      const double squares = reference_sum(values, [](double x) { return x * x; });
      std::vector<std::byte> bits((count + 7) / 8);
      EXPECT_EQ(sum_abs(values), sum);
      EXPECT_EQ(sum_squares(values), squares);
      EXPECT_EQ(spread_abs(values).sum, sum);
      EXPECT_EQ(spread_squares(values).sum, squares);
      EXPECT_EQ(spread_abs(values).max_abs_bits, max_abs_bits(values));
      EXPECT_EQ(moments(values).sum, reference_sum(values, [](double x) { return x; }));
      EXPECT_EQ(moments(values).squares, squares);
      EXPECT_EQ(moments(values).max_abs_bits, max_abs_bits(values));
      EXPECT_EQ(pack_signs(values, bits), sum);
      for (const std::size_t i : {std::size_t{0}, sum_chunk - 1, sum_chunk, count - 1}) {
        if (i == count) continue;
        EXPECT_EQ((std::to_integer<unsigned>(bits[i / 8]) >> (i % 8)) & 1U, values[i] < 0 ? 1U : 0U) << i;
      }
    }
  });
}

TEST(Targets, SumsAndSigns) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    const double sum = reference_sum(drawn, [](double x) { return std::abs(x); });
    EXPECT_EQ(sum_abs(values.span()), sum);
    EXPECT_EQ(sum_squares(values.span()), reference_sum(drawn, [](double x) { return x * x; }));
    std::uint32_t most = 0;
    for (const float v : drawn) most = std::max(most, element::magnitude_bits(v));
    EXPECT_EQ(max_abs_bits(values.span()), most);
    EXPECT_EQ(spread_abs(values.span()).max_abs_bits, most);
    EXPECT_EQ(spread_abs(values.span()).sum, sum);
    EXPECT_EQ(spread_squares(values.span()).max_abs_bits, most);
    EXPECT_EQ(moments(values.span()).sum, reference_sum(drawn, [](double x) { return x; }));
    EXPECT_EQ(moments(values.span()).squares, sum_squares(values.span()));
    EXPECT_EQ(moments(values.span()).max_abs_bits, most);
    std::vector<std::byte> norms(4 * ((count + block - 1) / block) + 1);
    EXPECT_EQ(max_abs_blocks(values.span(), block, std::span(norms).subspan(1)), most);
    for (std::size_t i = 0; i < count; i += block) {
      const auto part = std::span(drawn).subspan(i, std::min(block, count - i));
      EXPECT_EQ(load<std::uint32_t>(norms.data() + 1, i / block), max_abs_bits(part));
    }
    EXPECT_EQ(spread_squares(values.span()).sum, sum_squares(values.span()));

    Stretch<std::byte> bits((count + 7) / 8, 3 - shift);
    EXPECT_EQ(pack_signs(values.span(), bits.span()), sum);
    EXPECT_TRUE(bits.guarded());
    for (std::size_t i = 0; i < 8 * bits.span().size(); ++i) {
      const unsigned bit = (std::to_integer<unsigned>(bits.span()[i / 8]) >> (i % 8)) & 1U;
      ASSERT_EQ(bit, i < count && drawn[i] < 0 ? 1U : 0U);
    }
    // Every third value is a zero of either sign, whose bit is drawn.
    std::vector<std::uint32_t> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::uint32_t>(5 * i + seed);
    Stretch<float> some(count, shift);
    for (std::size_t i = 0; i < count; ++i) some.span()[i] = i % 3 == 0 ? (i % 2 == 0 ? 0.0F : -0.0F) : drawn[i];
    for (const bool listed : {false, true}) {
      const Draws draws{
          {77, static_cast<std::uint32_t>(seed)}, 4294967290U, listed ? std::span(places) : std::span(places).first(0)};
      Stretch<std::byte> votes((count + 7) / 8, 3 - shift);
      EXPECT_EQ(pack_drawn_signs(some.span(), draws, votes.span()), sum_abs(some.span()));
      EXPECT_TRUE(votes.guarded());
      for (std::size_t i = 0; i < 8 * votes.span().size(); ++i) {
        const unsigned bit = (std::to_integer<unsigned>(votes.span()[i / 8]) >> (i % 8)) & 1U;
        const auto wanted = [&] {
          return some.span()[i] == 0 ? draws.stream.quick(draws.number(i)) >> 31 : some.span()[i] < 0 ? 1U : 0U;
        };
        ASSERT_EQ(bit, i < count ? wanted() : 0U) << i;
      }
    }
    for (std::size_t from = 0; from <= std::min<std::size_t>(count, 9); ++from) {
      Stretch<float> out(count - from, shift, 0.125F);
      add_signs(bits.span(), from, 0.7F, out.span());
      for (std::size_t i = 0; i < out.span().size(); ++i) {
        ASSERT_EQ(out.span()[i], drawn[from + i] < 0 ? 0.125F - 0.7F : 0.125F + 0.7F);
      }
      EXPECT_TRUE(out.guarded());
    }
  });
}

TEST(Targets, Selections) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    auto drawn = numbers(count, seed);
    if (count > 2) drawn[count / 2] = -infinity;
    if (count > 3) drawn[count - 1] = std::numeric_limits<float>::quiet_NaN();
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    for (const float least : {1e-45F, 1.0F, 1e30F}) {
      std::vector<std::uint32_t> found(count);
      found.resize(collect_magnitudes(values.span(), std::bit_cast<std::uint32_t>(least), 5, found.data()));
      std::vector<std::uint32_t> expected;
      for (std::size_t i = 0; i < count; ++i) {
        if (!(std::abs(drawn[i]) < least)) expected.push_back(static_cast<std::uint32_t>(i) + 5);
      }
      EXPECT_EQ(found, expected);
      const Reaching reached = reaching(values.span(), std::bit_cast<std::uint32_t>(least));
      EXPECT_EQ(reached.count, expected.size());
    }
  });
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    for (const float least : {1e-45F, 0.5F, 1e30F}) {
      EXPECT_EQ(reaching(values.span(), std::bit_cast<std::uint32_t>(least)).sum,
                reference_sum(drawn, [&](double x) { return std::abs(x) >= least ? std::abs(x) : 0; }));
    }
  });
}

TEST(Targets, Gaps) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<std::uint32_t> numbers(count, shift);
    Philox random(seed, Purpose::test);
    std::uint32_t next = 7;
    std::vector<std::uint32_t> gaps;
    for (std::uint32_t& number : numbers.span()) {
      // Gaps of every length, whose sum is below 2^32.
      gaps.push_back(random.next() >> (random.below(16) == 0 ? 13 + random.below(4) : 20 + random.below(12)));
      if (gaps.size() == 20) gaps.back() = 1U << 29;
      number = next + gaps.back();
      next = number + 1;
    }
    for (const unsigned lowest : {0U, 1U, 6U, 29U}) {
      GapSizes expected;
      for (const std::uint32_t gap : gaps) {
        for (std::uint32_t left = gap >> 7; left > 0; left >>= 7) ++expected.more_groups;
        expected.long_runs += gap / 65535;
        for (unsigned j = 0; j < 3; ++j) expected.quotients[j] += gap >> (lowest + j);
      }
      const GapSizes sizes = gap_sizes(numbers.span(), 7, lowest);
      EXPECT_EQ(sizes.more_groups, expected.more_groups);
      EXPECT_EQ(sizes.long_runs, expected.long_runs);
      EXPECT_EQ(sizes.quotients, expected.quotients);
    }
  });
}

TEST(Targets, Draws) {
  const ElementStream stream{5, 6};
  everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    EXPECT_EQ(sum_abs_below(values.span(), std::bit_cast<std::uint32_t>(0.5F)),
              reference_sum(drawn, [](double x) { return std::abs(x) < 0.5 ? std::abs(x) : 0; }));
    for (const double factor : {double{0.3F}, double{1e-30F}, double{largest}, 0x1p130, 0x1.8p150}) {
      const auto p_of_all = static_cast<float>(std::fmin(factor, 1.0));
      for (const bool uniform : {false, true}) {
        std::vector<std::uint32_t> indices(count), expected_indices;
        std::vector<float> scales(count), expected_scales;
        const std::size_t found =
            uniform ? draw_uniform(values.span(), p_of_all, stream, 9, 5, indices.data(), scales.data())
                    : draw_proportional(values.span(), factor, stream, 9, 5, indices.data(), scales.data());
        indices.resize(found);
        scales.resize(found);
        for (std::uint32_t i = 0; i < count; ++i) {
          const double unit = factor > static_cast<double>(largest) ? 0x1p64 : 1.0;
          const float p = uniform ? p_of_all : static_cast<float>(factor / unit) * std::abs(drawn[i]);
          const double t = std::fmax(std::floor(std::fmin(static_cast<double>(p) * unit * 0x1p31, 0x1p31)), 1);
          if (drawn[i] == 0 || (stream.quick(9 + i) >> 1) >= t) continue;
          expected_indices.push_back(5 + i);
          expected_scales.push_back(static_cast<float>(0x1p31 / t));
        }
        EXPECT_EQ(indices, expected_indices);
        EXPECT_EQ(scales, expected_scales);
      }
    }
  });
}

}  // namespace
}  // namespace sotto::kernels
