// Transforms of sixteen chunks on every SIMD target, and the ways into their lanes and back.
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <vector>

#include "sotto/kernels/fourier.h"
#include "tests/kernels/stretches.h"

namespace sotto::kernels {
namespace {

TEST(Targets, Lanes) {
  on_every_target([] {
    for (std::size_t n = 1; n <= 64; n *= 2) {
      for (std::size_t count = 0; count <= fourier_lanes; ++count) {
        SCOPED_TRACE(::testing::Message() << count << " chunks of " << n);
        const auto drawn = numbers(count * n, n + count);
        std::vector<std::uint32_t> order(n);
        std::iota(order.rbegin(), order.rend(), 0U);
        for (const bool reversed : {false, true}) {
          const std::span<const std::uint32_t> rows =
              reversed ? std::span<const std::uint32_t>(order) : std::span<const std::uint32_t>();
          Stretch<float> lanes(n * fourier_lanes, 1);
          std::ranges::fill(lanes.span(), 7.0F);
          to_lanes(drawn, n, lanes.span(), rows);
          for (std::size_t k = 0; k < n; ++k) {
            for (std::size_t l = 0; l < fourier_lanes; ++l) {
              const float found = lanes.span()[(reversed ? n - 1 - k : k) * fourier_lanes + l];
              const float wanted = l < count ? drawn[l * n + k] : 0.0F;
              ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(wanted)) << k << ", " << l;
            }
          }
          Stretch<float> back(count * n, 3);
          from_lanes(lanes.span(), n, back.span(), rows);
          expect_same_bits<float>(back.span(), drawn);
          EXPECT_TRUE(lanes.guarded() && back.guarded());
        }
      }
    }
  });
}

TEST(Targets, RandomSigns) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    const ElementStream stream = element_stream(seed, Purpose::test, 0, 0, 0);
    const auto drawn = numbers(count, seed);
    const std::uint32_t number = 0xFFFFFFF0U;  // wraps around
    Stretch<float> out(count, shift);
    random_signs(drawn, stream, number, 0.3F, out.span());
    for (std::size_t i = 0; i < count; ++i) {
      const bool flipped = (stream.at(number + static_cast<std::uint32_t>(i)) >> 31) != 0;
      const float wanted = flipped ? -(drawn[i] * 0.3F) : drawn[i] * 0.3F;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out.span()[i]), std::bit_cast<std::uint32_t>(wanted)) << i;
    }
    EXPECT_TRUE(out.guarded());
  });
}

// The sums in their definition's order, since messages depend on it.
TEST(Targets, Hadamard) {
  on_every_target([] {
    for (std::size_t n = 1; n <= 256; n *= 2) {
      Stretch<float> values(n * fourier_lanes, 1);
      auto expected = numbers(n * fourier_lanes, n, 1e20F);
      std::ranges::copy(expected, values.span().begin());
      hadamard(values.span(), n);
      for (std::size_t half = 1; half < n; half *= 2) {
        for (std::size_t k = 0; k < n * fourier_lanes; ++k) {
          if ((k / fourier_lanes & half) != 0) continue;
          const float a = expected[k], b = expected[k + half * fourier_lanes];
          expected[k] = a + b;
          expected[k + half * fourier_lanes] = a - b;
        }
      }
      expect_same_bits<float>(values.span(), expected);
      EXPECT_TRUE(values.guarded());
    }
  });
}

TEST(Targets, Fourier) {
  on_every_target([] {
    for (std::size_t n = 1; n <= 128; n *= 2) {
      const auto turn = [n](std::size_t j) {
        return 2 * std::numbers::pi * static_cast<double>(j % n) / static_cast<double>(n);
      };
      std::vector<float> cosines(n / 2 + 1), sines(n / 2 + 1);
      for (std::size_t j = 0; j < n / 2; ++j) {
        cosines[j] = static_cast<float>(std::cos(turn(j)));
        sines[j] = static_cast<float>(std::sin(turn(j)));
      }
      Philox random(n, Purpose::test);
      std::vector<float> re(n * fourier_lanes), im(n * fourier_lanes);
      for (float& x : re) x = static_cast<float>(random.normal());
      for (float& x : im) x = static_cast<float>(random.normal());
      const auto first_re = re, first_im = im;
      fourier(re, im, n, cosines, sines);
      for (std::size_t l = 0; l < fourier_lanes; ++l) {
        for (std::size_t k = 0; k < n; ++k) {
          std::complex<double> sum = 0;
          for (std::size_t j = 0; j < n; ++j) {
            const std::size_t at = j * fourier_lanes + l;
            sum += std::complex<double>(first_re[at], first_im[at]) * std::polar(1.0, -turn(j * k));
          }
          ASSERT_NEAR(re[k * fourier_lanes + l], sum.real(), 1e-4) << n << ", " << k;
          ASSERT_NEAR(im[k * fourier_lanes + l], sum.imag(), 1e-4) << n << ", " << k;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sotto::kernels
