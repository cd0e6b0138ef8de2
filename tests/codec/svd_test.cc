// What svd promises beyond the laws: it finds the leading triplets, and its warm starts are state.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "sotto/codec/stages.h"
#include "sotto/codec/transform/svd.h"
#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "sotto/kernels/matrix.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

TEST(MatrixShape, IsThatOfTheFirstDimensionOrOfTheOriginal) {
  const auto shape = [](std::vector<std::int64_t> tensor, bool halves) {
    const MatrixShape found = matrix_shape(tensor, halves);
    return std::pair(found.rows, found.cols);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(shape({64, 3, 7, 7}, false), Pair(64, 147));
  EXPECT_EQ(shape({64, 3, 7, 7}, true), Pair(96, 98));
  EXPECT_EQ(shape({3, 5, 2}, true), Pair(3, 10));  // 15 cannot be halved
  EXPECT_EQ(shape({10, 6, 4}, true), Pair(30, 8));
  EXPECT_EQ(shape({500, 800}, true), Pair(500, 800));  // is a matrix already
  EXPECT_EQ(shape({7, 9}, true), Pair(7, 9));
  EXPECT_EQ(shape({64, 32, 1, 1}, true), Pair(64, 32));
  EXPECT_EQ(shape({64, 32, 1}, true), Pair(64, 32));
  EXPECT_EQ(shape({500}, true), Pair(250, 2));
  EXPECT_EQ(shape({501}, true), Pair(1, 501));
  EXPECT_EQ(shape({500}, false), Pair(1, 500));
  EXPECT_EQ(shape({}, false), Pair(1, 1));
  EXPECT_EQ(shape({}, true), Pair(1, 1));
}

// A few strong directions in noise, as in gradients.
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
    // The approximation must come near the best that four triplets can do.
    const double best = relative_error(*make_codec(read_stages("svd | topk(count=4)")), input, 0);
    const auto codec = make_codec(read_stages("svd(rank=4, exact=0) | topk(count=4)"));
    for (std::uint32_t step = 0; step < 3; ++step) relative_error(*codec, input, step);
    EXPECT_LT(relative_error(*codec, input, 3), 1.001 * best);
    EXPECT_GE(relative_error(*codec, input, 4), 0.999 * best);
  }
}

// Matrices with given singular values; Gaussian ones where `value` is null.
struct Spectrum {
  const char* name;
  std::size_t rows, cols;
  double (*value)(double i);
};
const std::vector<Spectrum> spectra{
    {"Gaussian", 128, 384, nullptr},
    {"1/i", 128, 384, [](double i) { return 1 / i; }},
    {"Gaussian, tall", 640, 320, nullptr},
    {"1/i, large", 512, 1024, [](double i) { return 1 / i; }},
    {"geometric", 256, 512, [](double i) { return std::pow(0.9, i); }},
    {"flat tail, as of convolutions", 512, 768, [](double i) { return std::pow(i, -0.6) + 0.02; }}};

// The given singular values between dense orthogonal matrices, which are products of reflections.
Input make_input(const Spectrum& spectrum) {
  const auto [name, rows, cols, value] = spectrum;
  const Layout layout({{"w", 0, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)}}}, rows * cols);
  Input input{name, layout, gaussian(layout, 55)};
  if (value == nullptr) return input;
  std::vector<double> matrix(rows * cols);
  for (std::size_t i = 0; i < std::min(rows, cols); ++i) matrix[i * cols + i] = value(static_cast<double>(i + 1));
  Philox random(56, Purpose::test);
  for (int k = 0; k < 6; ++k) {
    const bool left = k % 2 == 0;
    const std::size_t lines = left ? cols : rows;
    const std::size_t step = left ? cols : 1;
    const std::size_t length = left ? rows : cols;
    std::vector<double> v(length);
    double square = 0;
    for (double& x : v) square += std::pow(x = random.normal(), 2);
    for (std::size_t line = 0; line < lines; ++line) {
      double* begin = &matrix[left ? line : line * cols];
      double share = 0;
      for (std::size_t i = 0; i < length; ++i) share += v[i] * begin[i * step];
      for (std::size_t i = 0; i < length; ++i) begin[i * step] -= 2 / square * share * v[i];
    }
  }
  std::ranges::transform(matrix, input.values.begin(), [](double x) { return static_cast<float>(x); });
  return input;
}

// E|C(x)-x|^2 of atomo(s) on orthogonal atoms of these lengths, with probabilities by `energies`.
double atomo_variance(std::span<const float> energies, std::span<const double> lengths, double s) {
  std::vector<std::size_t> order(energies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return energies[a] > energies[b]; });
  double rest = std::accumulate(energies.begin(), energies.end(), 0.0);
  double variance = 0;
  bool certain = true;
  for (const std::size_t i : order) {
    certain = certain && energies[i] * s > rest;
    const double p = certain ? 1 : energies[i] * s / rest;
    if (p > 0) variance += lengths[i] * lengths[i] * (1 / p - 1);
    if (certain) {
      rest -= energies[i];
      s -= 1;
    }
  }
  return variance;
}

struct Decomposition {
  std::vector<float> energies, rows;
  std::vector<double> lengths;  // lengths of the atoms
};

Decomposition decompose(Svd& svd, const Input& input, std::uint32_t step = 0) {
  const Piece piece{0, {0, input.layout.size()}, 0};
  const Atoms atoms = svd.atoms(input.layout, piece);
  Decomposition found{std::vector<float>(atoms.count), std::vector<float>(atoms.values()), {}};
  const Streams streams{{.seed = 57, .step = step}, 0};
  svd.forward(input.layout, piece, streams, input.values, found.energies, {});
  std::vector<std::uint32_t> all(atoms.count);
  std::iota(all.begin(), all.end(), 0U);
  svd.write_factors(input.layout, piece, streams, input.values, all, found.rows);
  for (std::size_t i = 0; i < atoms.count; ++i) {
    const auto row = std::span(found.rows).subspan(i * atoms.width, atoms.width);
    found.lengths.push_back(std::sqrt(square_norm(row.first(atoms.split)) * square_norm(row.subspan(atoms.split))));
  }
  return found;
}

// Orthonormal vectors whose images are orthogonal are singular vectors, however they were found.
void expect_singular(const Decomposition& found, const Input& input) {
  const auto& shape = input.layout.segments()[0].shape;
  const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
  double worst_left = 0, worst_right = 0;
  for (std::size_t i = 0; i < found.lengths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::span<const float> a(&found.rows[i * (rows + cols)], rows + cols);
      const std::span<const float> b(&found.rows[j * (rows + cols)], rows + cols);
      worst_left = std::max(worst_left, std::abs(kernels::dot(a.first(rows), b.first(rows))));
      worst_right = std::max(worst_right, std::abs(kernels::dot(a.subspan(rows), b.subspan(rows))));
    }
  }
  const double square = rows <= cols ? found.lengths[0] : 1.0;
  const double other = rows <= cols ? 1.0 : found.lengths[0];
  EXPECT_LT(worst_left, 1e-6 * other * other) << input.name;
  EXPECT_LT(worst_right, 1e-6 * square * square) << input.name;
}

TEST(Svd, IsExactByDefaultUpTo512Rows) {
  for (const Spectrum& spectrum : spectra) {
    const Input input = make_input(spectrum);
    Svd svd{SvdOptions{}};
    const Decomposition found = decompose(svd, input);
    expect_singular(found, input);
    double square = 0;
    for (std::size_t i = 0; i < found.lengths.size(); ++i) {
      square += std::pow(found.lengths[i], 2);
      EXPECT_NEAR(found.energies[i], found.lengths[i], 1e-6 * found.lengths[0]) << spectrum.name << ' ' << i;
      if (spectrum.value == nullptr) continue;
      EXPECT_NEAR(found.energies[i], spectrum.value(static_cast<double>(i + 1)), 1e-6 * found.lengths[0]);
    }
    EXPECT_NEAR(square, square_norm(input.values), 1e-5 * square);
  }
}

// The variance in the third step on the same matrix, compared with the least that any atoms of rank 1 can have.
TEST(Svd, ApproximationsComeNearTheLeastVariance) {
  for (const Spectrum& spectrum : spectra) {
    const Input input = make_input(spectrum);
    Svd exact{SvdOptions{}};
    const Decomposition best = decompose(exact, input);
    SvdOptions options;
    options.exact = 0;
    options.rank = static_cast<std::int64_t>(std::min(spectrum.rows, spectrum.cols) / 4);
    Svd svd{options};
    Decomposition found;
    for (std::uint32_t step = 0; step < 3; ++step) found = decompose(svd, input, step);
    for (const double s : {1.0, 3.0, 8.0}) {
      const double least = atomo_variance(best.energies, best.lengths, s);
      const double variance = atomo_variance(found.energies, found.lengths, s);
      EXPECT_LT(variance, 1.1 * least) << spectrum.name << ", s=" << s;
      EXPECT_GT(variance, 0.999 * least) << spectrum.name << ", s=" << s;
    }
  }
}

TEST(Svd, ApproximationsLookForNoMoreThanMatters) {
  const Input input = low_rank(300, 200);  // four directions in noise
  Input pure{"of rank four", input.layout, std::vector<float>(input.values.size())};
  const auto four = make_codec(read_stages("svd | topk(count=4)"));
  pure.values = decode(*four, input, encode(*four, input));
  SvdOptions options;
  options.exact = 0;
  options.rank = 64;
  Svd svd{options};
  for (std::uint32_t step = 0; step < 6; ++step) decompose(svd, pure, step);
  class Sizes final : public StateVisitor {
   public:
    void visit(std::string_view, std::vector<float>& values) override { size = values.size(); }
    void visit(std::string_view, std::vector<std::uint8_t>&) override {}
    void visit(std::string_view, std::uint64_t&) override {}
    std::size_t size = 0;
  } sizes;
  svd.visit_state(sizes);
  EXPECT_EQ(sizes.size, 4 * 300);
}

TEST(Svd, WarmStartsAreStateOfACheckpoint) {
  const Input input = low_rank(30, 20);
  const std::string expression = "svd(rank=3, exact=1) | atomo(3.5) | qsgd(8)";
  const auto codec = make_codec(read_stages(expression));
  for (std::uint32_t step = 0; step < 3; ++step) encode(*codec, input, {.step = step}, 1);

  const auto path = std::filesystem::temp_directory_path() / ("sotto-svd-" + std::to_string(::getpid()));
  StateWriter writer(path);
  codec->visit_state(writer);
  writer.finish();
  const auto resumed = make_codec(read_stages(expression));
  StateReader reader(path);
  resumed->visit_state(reader);
  reader.finish();
  std::filesystem::remove(path);

  const auto expected = encode(*codec, input, {.step = 3}, 1);
  EXPECT_EQ(encode(*resumed, input, {.step = 3}, 1), expected);
  EXPECT_NE(encode(*make_codec(read_stages(expression)), input, {.step = 3}, 1), expected);
}

TEST(Svd, AnotherShapeInTheSamePlaceBeginsAnew) {
  const auto codec = make_codec(read_stages("svd(rank=8, exact=0) | topk(1)"));
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{40, 20}, {20, 900}, {900, 20}, {20, 40}}) {
    const Input input = low_rank(rows, cols);
    EXPECT_EQ(encode(*codec, input), encode(*make_codec(read_stages(codec->traits().text)), input));
  }
}

// Fills in the state of a codec with values that a damaged checkpoint may have.
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
  const auto codec = [] { return make_codec(read_stages("svd(rank=3, exact=1)")); };
  Liar endless(std::uint64_t{1} << 60U, std::vector<float>(60));
  EXPECT_THROW(codec()->visit_state(endless), FileError);
  Liar bad(1, std::vector<float>(60, NAN));
  EXPECT_THROW(codec()->visit_state(bad), FileError);
  for (const std::size_t size : {3, 61, 0}) {  // of another layout
    Liar other(1, std::vector<float>(size));
    const auto begun = codec();
    begun->visit_state(other);
    EXPECT_EQ(encode(*begun, input), encode(*codec(), input));
  }
}

TEST(Svd, NumbersThatAreTooLargeOnTheWayAreAnError) {
  Input input = low_rank(30, 20);
  for (float& value : input.values) value = value > 0 ? 3e38F : -3e38F;
  for (const char* expression : {"svd", "svd(rank=3, exact=1)", "svd(rank=3, exact=1) | atomo(2) | qsgd(8)"}) {
    EXPECT_THROW(encode(*make_codec(read_stages(expression)), input), NumericError) << expression;
  }
}

// In a tall matrix, the large factor of a probe is the first one, and the large factor of a triplet the second.
TEST(Svd, LargeNumbersAreNoErrorAsLongAsTheirProductsAreNot) {
  for (const std::int64_t rows : {3, 9, 40}) {
    const Layout layout({{"w", 0, {rows, 9}}}, static_cast<std::size_t>(9 * rows));
    const Input input{"huge", layout, gaussian(layout, 41, 1e30F)};
    for (const char* expression : {"svd(rank=1, exact=1)", "svd(rank=2, exact=1) | qsgd(8)"}) {
      const auto codec = make_codec(read_stages(expression));
      EXPECT_NO_THROW(decode(*codec, input, encode(*codec, input))) << expression << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace sotto::testing
