// What transforms promise beyond the laws: norms are kept, the leading triplets are found, state is state.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sotto/codec/transform/dct.h"
#include "sotto/codec/transform/fft.h"
#include "sotto/codec/transform/hadamard.h"
#include "sotto/codec/transform/svd.h"
#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "sotto/kernels/matrix.h"
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
        EXPECT_NEAR(square_norm(energies), square_norm(values), 1e-5 * square_norm(values)) << transform->sentence();
        EXPECT_NEAR(square_norm(rows), square_norm(values), 1e-5 * square_norm(values)) << transform->sentence();

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
  const auto codec = make_codec("test", "dct(64) | topk(0.01)");
  const auto out = decode(*codec, input, encode(*codec, input));
  EXPECT_LE(square_distance(out, input.values), 1e-10);
}

TEST(MatrixShape, IsThatOfTheFirstDimensionOrOfTheOriginal) {
  const auto shape = [](std::vector<std::int64_t> tensor, bool halves) {
    const MatrixShape found = matrix_shape(tensor, halves);
    return std::pair(found.rows, found.cols);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(shape({64, 3, 7, 7}, false), Pair(64, 147));
  EXPECT_EQ(shape({64, 3, 7, 7}, true), Pair(96, 98));
  EXPECT_EQ(shape({3, 5, 2}, true), Pair(3, 10));  // 15 cannot be halved
  EXPECT_EQ(shape({10, 500}, true), Pair(2500, 2));
  EXPECT_EQ(shape({500}, true), Pair(1, 500));
  EXPECT_EQ(shape({}, false), Pair(1, 1));
}

// Few strong directions in noise, as gradients have them.
Input low_rank(std::size_t rows, std::size_t cols) {
  const Layout layout({{"w", 0, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)}}}, rows * cols);
  Input input{"low rank", layout, gaussian(layout, 51, 0.05F)};
  Philox random(52, Purpose::test);
  for (int k = 0; k < 4; ++k) {
    std::vector<double> u(rows);
    std::vector<double> v(cols);
    for (double& x : u) x = random.normal();
    for (double& x : v) x = random.normal();
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j) input.values[i * cols + j] += static_cast<float>(u[i] * v[j] / (1 + k));
    }
  }
  return input;
}

double relative_error(Codec& codec, const Input& input, std::uint32_t step) {
  const auto out = decode(codec, input, encode(codec, input, {.seed = 53, .step = step}));
  return square_distance(out, input.values) / square_norm(input.values);
}

TEST(Svd, FromStepToStepItFindsTheLeadingTriplets) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{90, 70}, {70, 90}}) {
    const Input input = low_rank(rows, cols);
    // The best that four triplets can do, and what the approximation comes to.
    const auto exact = make_codec("test", "svd(exact=128) | topk(" + std::to_string(3.9 / 70) + ")");
    const double best = relative_error(*exact, input, 0);
    const auto codec = make_codec("test", "svd(rank=4, exact=1, probes=0)");
    EXPECT_GT(relative_error(*codec, input, 0), 1.05 * best);
    for (std::uint32_t step = 1; step < 5; ++step) relative_error(*codec, input, step);
    EXPECT_LT(relative_error(*codec, input, 5), 1.001 * best);
    EXPECT_GE(relative_error(*codec, input, 6), 0.999 * best);
  }
}

TEST(Svd, ProbesStandForWhatIsLeftOut) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{20, 30}, {30, 20}}) {
    const Input input = low_rank(rows, cols);
    const auto codec = make_codec("test", "svd(rank=2, exact=1, probes=2)");
    const Contract contract = codec->contract(input.layout);
    EXPECT_EQ(contract.kind, Contract::Kind::unbiased);
    EXPECT_EQ(contract.omega, 19.0 / 2);
    constexpr int draws = 4000;
    std::vector<double> mean(input.values.size());
    double variance = 0;
    for (int t = 0; t < draws; ++t) {
      const auto out =
          decode(*codec, input, encode(*codec, input, {.seed = 54, .step = static_cast<std::uint32_t>(t)}));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += out[i] / static_cast<double>(draws);
      variance += square_distance(out, input.values) / draws;
    }
    double error = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) error += std::pow(mean[i] - input.values[i], 2);
    EXPECT_LE(error, 1.5 * variance / draws);  // variance / draws on average, over hundreds of elements
    // Warm, it is (n - 1) / probes of what two triplets leave out, and far below the bound.
    const auto dropping = make_codec("test", "svd(rank=2, exact=1, probes=0)");
    double left = 0;
    for (std::uint32_t step = 0; step < 8; ++step) left = relative_error(*dropping, input, step);
    EXPECT_NEAR(variance / (19.0 / 2 * left * square_norm(input.values)), 1, 0.1);
  }
}

TEST(Svd, WarmStartsAreStateOfACheckpoint) {
  const Input input = low_rank(30, 20);
  const std::string sentence = "svd(rank=3, exact=1) | atomo(3.5) | qsgd(8)";
  const auto codec = make_codec("test", sentence);
  for (std::uint32_t step = 0; step < 3; ++step) encode(*codec, input, {.step = step}, 1);

  const auto path = std::filesystem::temp_directory_path() / ("sotto-svd-" + std::to_string(::getpid()));
  StateWriter writer;
  codec->visit_state(writer);
  writer.write(path);
  const auto resumed = make_codec("test", sentence);
  StateReader reader(path);
  resumed->visit_state(reader);
  reader.finish();
  std::filesystem::remove(path);

  const auto expected = encode(*codec, input, {.step = 3}, 1);
  EXPECT_EQ(encode(*resumed, input, {.step = 3}, 1), expected);
  EXPECT_NE(encode(*make_codec("test", sentence), input, {.step = 3}, 1), expected);
}

TEST(Svd, AnotherShapeInTheSamePlaceBeginsAnew) {
  const auto codec = make_codec("test", "svd(rank=8, exact=0) | topk(1)");
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{40, 20}, {20, 900}, {900, 20}, {20, 40}}) {
    const Input input = low_rank(rows, cols);
    EXPECT_EQ(encode(*codec, input), encode(*make_codec("test", codec->sentence()), input));
  }
}

// Answers a walk over the state of a codec with what a damaged checkpoint may say.
class Liar final : public StateVisitor {
 public:
  Liar(std::uint64_t count, std::vector<float> vectors) : count_(count), vectors_(std::move(vectors)) {}
  void visit(std::string_view name, std::vector<float>& values) override {
    if (++read_ > 3) throw FileError(std::string(name) + " is missing");
    values = vectors_;
  }
  void visit(std::string_view, std::vector<std::uint8_t>&) override {}
  void visit(std::string_view name, std::uint64_t& value) override { value = name == "svd_matrices" ? count_ : 0; }

 private:
  std::uint64_t count_;
  std::vector<float> vectors_;
  int read_ = 0;
};

TEST(Svd, StateThatCannotBeItsOwnIsRefused) {
  const Input input = low_rank(30, 20);
  const auto codec = [] { return make_codec("test", "svd(rank=3, exact=1)"); };
  Liar endless(std::uint64_t{1} << 60U, std::vector<float>(60));
  EXPECT_THROW(codec()->visit_state(endless), FileError);
  Liar odd(1, std::vector<float>(61));
  EXPECT_THROW(codec()->visit_state(odd), FileError);
  Liar bad(1, std::vector<float>(60, NAN));
  EXPECT_THROW(codec()->visit_state(bad), FileError);
  Liar shorter(1, std::vector<float>(3));  // of another layout
  const auto begun = codec();
  begun->visit_state(shorter);
  EXPECT_EQ(encode(*begun, input), encode(*codec(), input));
}

TEST(Svd, NumbersThatAreTooLargeOnTheWayAreAnError) {
  Input input = low_rank(30, 20);
  for (float& value : input.values) value = value > 0 ? 3e38F : -3e38F;
  for (const char* sentence : {"svd", "svd(rank=3, exact=1)", "svd(rank=3, exact=1) | atomo(2) | qsgd(8)"}) {
    EXPECT_THROW(encode(*make_codec("test", sentence), input), NumericError) << sentence;
  }
}

// Of a tall matrix a probe's large factor is the first one, and a triplet's the second.
TEST(Svd, LargeNumbersAreNoErrorAsLongAsTheirProductsAreNot) {
  for (const std::int64_t rows : {3, 9, 40}) {
    const Layout layout({{"w", 0, {rows, 9}}}, static_cast<std::size_t>(9 * rows));
    const Input input{"huge", layout, gaussian(layout, 41, 1e30F)};
    for (const char* sentence : {"svd(rank=1, exact=1)", "svd(rank=2, exact=1) | qsgd(8)"}) {
      const auto codec = make_codec("test", sentence);
      EXPECT_NO_THROW(decode(*codec, input, encode(*codec, input))) << sentence << ", " << rows << " rows";
    }
  }
}

// Floats that fit each on its own, but no sum of them: whoever encodes them says so, not who reads the message.
TEST(Transforms, OfValuesWhoseSumsDoNotFitAreRefusedByTheEncoder) {
  const Layout layout({{"small", 0, {2}}, {"huge", 2, {2, 4}}}, 10);
  Input input{"huge", layout, std::vector<float>(10, 1.0F)};
  for (std::size_t i = 2; i < 10; ++i) input.values[i] = std::numeric_limits<float>::max();
  for (const char* sentence : {"hadamard(chunk=1)", "hadamard(chunk=1) | topk(0.5)", "dct(1) | natural",
                               "svd | atomo(s=2) | atomo(s=1) | qsgd"}) {
    const auto codec = make_codec("test", sentence);
    try {
      encode(*codec, input, {.rank = 3, .step = 8});
      ADD_FAILURE() << sentence << ": was accepted";
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
