#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "app/analyze/codec_study.h"
#include "app/analyze/gradient_analysis.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

TEST(TensorStatistics, AreExactWhereTheyAreKnown) {
  const std::vector<float> values{-4, 0, 0, 0, 0, 0, 0, 4};
  const TensorStatistics s = statistics_of(values);
  EXPECT_EQ(s.elements, 8U);
  EXPECT_EQ(s.mean, 0);
  EXPECT_EQ(s.deviation, 2);
  EXPECT_EQ(s.skewness, 0);
  EXPECT_EQ(s.kurtosis, 4);  // mean of x^4 / 2^4 = 64 / 16
  EXPECT_EQ(s.least, -4);
  EXPECT_EQ(s.most, 4);
  EXPECT_EQ(s.l1, 8);
  EXPECT_EQ(s.l2, std::sqrt(32));
  EXPECT_EQ(s.zeros, 0.75);
  EXPECT_EQ(s.top_percent, 0.5);
  EXPECT_DOUBLE_EQ(s.hoyer, (std::sqrt(8) - 8 / std::sqrt(32)) / (std::sqrt(8) - 1));
  EXPECT_EQ(s.histogram.counts.front(), 1U);
  EXPECT_EQ(s.histogram.counts.back(), 1U);
  EXPECT_EQ(s.histogram.counts[Histogram::bins / 2], 6U) << "zero begins the upper half";
  EXPECT_DOUBLE_EQ(s.histogram.entropy(), 0.75 * std::log2(4.0 / 3) + 2 * 0.125 * 3);
}

TEST(TensorStatistics, OfOneElementOfZerosAndOfNothing) {
  EXPECT_EQ(statistics_of({}).elements, 0U);
  EXPECT_EQ(statistics_of({}).histogram.entropy(), 0);
  const std::vector<float> zeros(5);
  const TensorStatistics s = statistics_of(zeros);
  EXPECT_EQ(s.zeros, 1);
  EXPECT_EQ(s.kurtosis, 0);
  EXPECT_EQ(s.hoyer, 0);
  EXPECT_EQ(s.histogram.entropy(), 0);
  const std::vector<float> one{-3};
  EXPECT_EQ(statistics_of(one).top_percent, 1);
  const std::vector<float> large{1e30F, 0, 0, 0};
  EXPECT_EQ(statistics_of(large).top_percent, 1) << "though its square is no float";
  EXPECT_EQ(statistics_of(one).hoyer, 0);
  std::vector<float> spike(100);
  spike[7] = -2;
  EXPECT_DOUBLE_EQ(statistics_of(spike).hoyer, 1);
}

class Analysis : public testing::Test {
 protected:
  Analysis() {
    std::string name = (std::filesystem::temp_directory_path() / "sotto-analyze-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Analysis() override { std::filesystem::remove_all(folder_); }

  // A 2 x 2 matrix and a vector of two.
  void write(bool memory, std::uint64_t step, std::optional<int> rank, std::vector<float> matrix,
             std::vector<float> vector) {
    const Layout layout({{"m", 0, {2, 2}}, {"v", 16, {2}}}, 18);
    std::vector<float> values(18);
    std::ranges::copy(matrix, values.begin());
    std::ranges::copy(vector, values.begin() + 16);
    CapturedFile{folder_, memory, step, rank}.write(layout, values);
  }
  GradientAnalysis analysed() {
    return analyse(captured_files(folder_), true, [](std::string_view) {});
  }

  std::filesystem::path folder_;
};

TEST_F(Analysis, SingularValuesAndBases) {
  write(false, 0, std::nullopt, {3, 0, 0, -4}, {1, 1});
  const GradientAnalysis analysis = analysed();
  EXPECT_EQ(analysis.names, (std::vector<std::string>{"m", "v", "(all)"}));
  ASSERT_EQ(analysis.tensors.size(), 3U);
  const AnalysedTensor& m = analysis.tensors[0];
  ASSERT_EQ(m.weights.spectrum.size(), 2U);
  EXPECT_NEAR(m.weights.spectrum[0], 4, 1e-12);
  EXPECT_NEAR(m.weights.spectrum[1], 3, 1e-12);
  EXPECT_NEAR(m.weights.singular, 2 * 7, 1e-12) << "sqrt(2 + 2) times the nuclear norm";
  EXPECT_EQ(m.weights.entries, 7);
  EXPECT_EQ(m.rank90(), 2U) << "16 of 25 are less than nine tenths";
  EXPECT_EQ(analysis.tensors[1].rank90(), 1U);
  EXPECT_DOUBLE_EQ(analysis.tensors[2].statistics.l2, std::sqrt(27)) << "padding does not count";
  EXPECT_EQ(analysis.tensors[2].statistics.elements, 6U);
  EXPECT_TRUE(analysis.agreements.empty()) << "one rank";
}

TEST_F(Analysis, CosinesBetweenRanksAreMeansOverPairs) {
  write(false, 0, 0, {1, 0, 0, 0}, {2, 0});
  write(false, 0, 1, {0, 5, 0, 0}, {3, 0});
  write(false, 0, 2, {1, 1, 0, 0}, {0, 0});  // m: cosine 1/sqrt(2) with each of the others
  write(false, 1, 0, {1, 0, 0, 0}, {1, 0});
  write(false, 1, 1, {-2, 0, 0, 0}, {1, 0});
  const auto agreements = analysed().agreements;
  ASSERT_EQ(agreements.size(), 6U);
  EXPECT_NEAR(agreements[0].cosine, 2 / std::sqrt(2.0) / 3, 1e-12);
  EXPECT_EQ(agreements[0].ranks, 3U);
  EXPECT_NEAR(agreements[1].cosine, 1, 1e-12);
  EXPECT_EQ(agreements[1].ranks, 2U) << "a gradient of zero has no direction";
  EXPECT_NEAR(agreements[3].cosine, -1, 1e-12);
  EXPECT_EQ(agreements[3].step, 1U);
}

TEST_F(Analysis, MemoriesAreComparedToTheirRanksGradient) {
  for (const int rank : {0, 1}) {
    write(false, 3, rank, {3, 0, 0, 4}, {0, 0});
    write(true, 3, rank, {0, 0, 0, rank == 0 ? 10.0F : -5.0F}, {1, 0});
  }
  write(true, 4, 0, {1, 0, 0, 0}, {1, 0});  // its gradient is missing
  std::vector<AnalysedTensor> memories;
  for (const AnalysedTensor& t : analysed().tensors) {
    if (t.memory && t.name == "m") memories.push_back(t);
  }
  ASSERT_EQ(memories.size(), 3U);
  EXPECT_NEAR(*memories[0].beside_gradient, 2, 1e-12);
  EXPECT_NEAR(*memories[0].cosine_to_gradient, 0.8, 1e-12);
  EXPECT_NEAR(*memories[1].beside_gradient, 1, 1e-12);
  EXPECT_NEAR(*memories[1].cosine_to_gradient, -0.8, 1e-12);
  EXPECT_FALSE(memories[2].beside_gradient);
}

TEST_F(Analysis, SaysWhatItWorksOn) {
  write(false, 0, std::nullopt, {1, 2, 3, 4}, {0, 0});
  write(false, 1, std::nullopt, {1, 2, 3, 4}, {0, 0});
  const auto files = captured_files(folder_);
  std::vector<StudiedCodec> studied{{"f16"}};
  std::vector<std::unique_ptr<Codec>> codecs;
  codecs.push_back(make_codec(read_stages("f16")));
  const std::vector<std::size_t> merges{2};
  std::vector<std::string> parts;
  const auto progress = [&](std::string_view part) { parts.emplace_back(part); };
  analyse(files, true, progress);
  study(codecs, files, 1, merges, progress, studied);
  EXPECT_EQ(parts,
            (std::vector<std::string>{"file 1 of 2: m", "file 1 of 2: v", "file 2 of 2: m", "file 2 of 2: v",
                                      "codecs on file 1 of 2", "codecs on file 2 of 2", "merges of codec 1 of 1"}));
}

TEST_F(Analysis, RefusesWhatDoesNotBelongTogether) {
  write(false, 0, std::nullopt, {1, 2, 3, NAN}, {0, 0});
  EXPECT_NE(test::message_of([&] { analysed(); }).find("gradient-000000.safetensors: m holds nan"), std::string::npos);
  write(false, 0, std::nullopt, {1, 2, 3, 4}, {0, 0});
  const Layout other({{"w", 0, {2}}}, 2);
  CapturedFile{folder_, false, 1, std::nullopt, CaptureFormat::npy}.write(other, std::vector<float>{1, 2});
  EXPECT_NE(test::message_of([&] { analysed(); }).find("gradient-000001.npy: holds other tensors"), std::string::npos);
}

}  // namespace
}  // namespace sotto
