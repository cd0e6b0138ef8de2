#include "sotto/kernels/blend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sotto/core/random.h"
#include "tests/kernels/targets.h"

namespace sotto::kernels {
namespace {

std::vector<std::uint8_t> noise(Philox& random, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) {
    const std::uint32_t drawn = random.below(300);
    byte = static_cast<std::uint8_t>(drawn < 256 ? drawn : drawn < 278 ? 0 : 255);
  }
  return bytes;
}

// Weights whose sum is 2^22, or a little more or less because of rounding.
std::vector<std::int32_t> random_weights(Philox& random, std::size_t count) {
  std::vector<double> shares(count);
  double sum = 0;
  for (double& share : shares) sum += share = random.uniform() + 0.01;
  std::vector<std::int32_t> weights;
  for (const double share : shares)
    weights.push_back(static_cast<std::int32_t>(share / sum * (1 << weight_bits) + 0.5));
  return weights;
}

// The definition: the sum rounded to the nearest byte.
std::uint8_t mean_of(const std::vector<std::int64_t>& bytes, std::span<const std::int32_t> weights) {
  std::int64_t sum = std::int64_t{1} << (weight_bits - 1);
  for (std::size_t k = 0; k < bytes.size(); ++k) sum += bytes[k] * weights[k];
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> weight_bits, 0, 255));
}

TEST(Blend, PixelsAreMeansOfTheirNeighbours) {
  on_every_target([] {
    Philox random(1, Purpose::test);
    for (const std::uint32_t width : {1U, 2U, 5U, 64U, 331U}) {
      const std::vector<std::uint8_t> row = noise(random, std::size_t{4} * width);
      std::vector<Taps> taps;
      std::vector<std::int32_t> weights;
      for (int i = 0; i < 50; ++i) {
        const std::uint32_t first = random.below(width);
        const std::uint32_t count = 1 + random.below(std::min(width - first, 20U));
        taps.push_back({first, count, weights.size()});
        const auto its = random_weights(random, count);
        weights.insert(weights.end(), its.begin(), its.end());
      }
      std::vector<std::uint8_t> out(4 * taps.size());
      blend_pixels(row, taps, weights, out);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const Taps& its = taps[i / 4];
        std::vector<std::int64_t> bytes;
        for (std::uint32_t k = 0; k < its.count; ++k) bytes.push_back(row[4 * (its.first + k) + i % 4]);
        ASSERT_EQ(out[i], mean_of(bytes, std::span(weights).subspan(its.weight))) << "byte " << i;
      }
    }
  });
}

TEST(Blend, RowsAreMeansOfBytes) {
  on_every_target([] {
    Philox random(2, Purpose::test);
    for (const std::size_t width : {1U, 4U, 15U, 16U, 17U, 896U, 901U}) {
      for (const std::size_t count : {1U, 2U, 3U, 11U}) {
        const std::size_t stride = width + random.below(9);
        const std::vector<std::uint8_t> rows = noise(random, stride * (count - 1) + width);
        const std::vector<std::int32_t> weights = random_weights(random, count);
        std::vector<std::uint8_t> out(width);
        blend_rows(rows, stride, weights, out);
        for (std::size_t j = 0; j < width; ++j) {
          std::vector<std::int64_t> bytes;
          for (std::size_t k = 0; k < count; ++k) bytes.push_back(rows[k * stride + j]);
          ASSERT_EQ(out[j], mean_of(bytes, weights)) << "byte " << j;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sotto::kernels
