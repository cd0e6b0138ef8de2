#include "sotto/codec/basis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"

namespace sotto::testing {
namespace {

TEST(Basis, AMatrixOfLowRankIsForSvdASpikeForEntriesAWaveForDct) {
  Layout layout;
  layout.append("low rank", {40, 50});
  layout.append("spikes", {40, 50});
  layout.append("waves", {40, 64});
  layout.append("zero", {7});
  std::vector<float> values(layout.size());
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 50; ++j) {
      const auto sign = static_cast<float>((i * 7 % 3 == 0 ? 1 : -1) * (j * 5 % 7 < 3 ? 1 : -1));
      values[layout.segments()[0].offset + i * 50 + j] = sign;
      values[layout.segments()[1].offset + i * 50 + j] = i == j ? 1.0F : 0.0F;
    }
    for (std::size_t j = 0; j < 64; ++j) {
      values[layout.segments()[2].offset + i * 64 + j] =
          static_cast<float>(std::cos(3.14159265 * static_cast<double>((i + 1) * (2 * j + 1)) / 128));
    }
  }
  const auto weights = weigh_bases(layout, values, 64);
  EXPECT_EQ(weights[0].advice(), "svd");
  EXPECT_EQ(weights[1].advice(), "entries");
  EXPECT_EQ(weights[2].advice(), "dct");
  EXPECT_EQ(weights[3].advice(), "any");
  // The matrix has one singular value, sqrt(40 * 50), whose atom is 90 floats; or 40 entries of 1; or 40 coefficients
  // of sqrt(32).
  EXPECT_NEAR(weights[0].singular, std::sqrt(40 * 50 * 90.0), 1e-2);
  EXPECT_NEAR(weights[0].entries, 2000, 1e-3);
  EXPECT_NEAR(weights[1].entries, 40, 1e-5);
  EXPECT_NEAR(weights[1].singular, 40 * std::sqrt(90.0), 1e-3);
  EXPECT_NEAR(weights[2].cosine, 40 * std::sqrt(32.0), 1e-2);

  values[layout.segments()[1].offset] = INFINITY;
  EXPECT_THROW(weigh_bases(layout, values, 64), NumericError);
}

}  // namespace
}  // namespace sotto::testing
