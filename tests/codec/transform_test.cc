// What block transforms promise beyond the laws: norms are kept; sums that do not fit are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/stages.h"
#include "sotto/codec/transform/dct.h"
#include "sotto/codec/transform/fft.h"
#include "sotto/codec/transform/hadamard.h"
#include "sotto/core/error.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

template <class T>
std::unique_ptr<Transform> with_chunk(std::int64_t chunk) {
  typename T::Options options;
  options.chunk = chunk;
  return std::make_unique<T>(options);
}

TEST(Chunks, EnergiesAreThoseOfTheInputAtEveryLength) {
  for (const std::int64_t n : {1, 2, 3, 31, 64, 100, 1000, 4099}) {
    const Layout layout({{"w", 0, {n}}}, static_cast<std::size_t>(n));
    const auto values = gaussian(layout, 50);
    const Piece piece{0, {0, layout.size()}, 0};
    for (const std::int64_t chunk : {1, 2, 16, 1024}) {
      for (const auto& transform : {with_chunk<Dct>(chunk), with_chunk<Fft>(chunk), with_chunk<Hadamard>(chunk)}) {
        const Atoms atoms = transform->atoms(layout, piece);
        std::vector<float> energies(atoms.count);
        std::vector<float> rows(atoms.values());
        transform->forward(layout, piece, {}, values, atoms.width == 1 ? std::span(rows) : std::span(energies), rows);
        if (atoms.width == 1) energies = rows;
        EXPECT_NEAR(square_norm(energies), square_norm(values), 1e-5 * square_norm(values)) << n << ", " << chunk;
        EXPECT_NEAR(square_norm(rows), square_norm(values), 1e-5 * square_norm(values)) << n << ", " << chunk;

        std::vector<std::uint32_t> all(atoms.count);
        for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
        std::vector<float> back(values.size());
        transform->add_inverse(layout, piece, all, rows, 2, back);
        for (std::size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], 2 * values[i], 1e-5);
      }
    }
  }
}

TEST(Dct, FindsASlowChangeInOneCoefficient) {
  const Layout layout({{"w", 0, {1, 64}}}, 64);
  Input input{"cosine", layout, std::vector<float>(64)};
  for (std::size_t i = 0; i < 64; ++i) {
    input.values[i] = static_cast<float>(std::cos(std::acos(-1.0) * 3 * (2 * static_cast<double>(i) + 1) / 128));
  }
  const auto codec = make_codec(read_stages("dct(64) | topk(0.01)"));
  const auto out = decode(*codec, input, encode(*codec, input));
  EXPECT_LE(square_distance(out, input.values), 1e-10);
}

// Each float is finite, but their sums overflow. The encoder must say so, not the reader of the message.
TEST(Transforms, OfValuesWhoseSumsDoNotFitAreRefusedByTheEncoder) {
  const Layout layout({{"small", 0, {2}}, {"huge", 2, {2, 4}}}, 10);
  Input input{"huge", layout, std::vector<float>(10, 1.0F)};
  for (std::size_t i = 2; i < 10; ++i) input.values[i] = std::numeric_limits<float>::max();
  for (const char* expression : {"hadamard(chunk=1)", "hadamard(chunk=1) | topk(0.5)", "dct(1) | natural",
                                 "svd | atomo(s=2) | atomo(s=1) | qsgd"}) {
    const auto codec = make_codec(read_stages(expression));
    try {
      encode(*codec, input, {.rank = 3, .step = 8});
      ADD_FAILURE() << expression << ": was accepted";
    } catch (const NumericError& error) {
      EXPECT_NE(std::string(error.what()).find("huge"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("step 8"), std::string::npos) << error.what();
    }
    for (std::size_t i = 2; i < 10; ++i) input.values[i] = 1e20F;
    EXPECT_NO_THROW(decode(*codec, input, encode(*codec, input)));
    for (std::size_t i = 2; i < 10; ++i) input.values[i] = std::numeric_limits<float>::max();
  }
}

}  // namespace
}  // namespace sotto::testing
