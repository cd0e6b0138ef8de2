#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/train/record/capture.h"
#include "sotto/codec/basis.h"

namespace sotto {

// Equal bins over [-most, most], where `most` is the largest magnitude of the values.
struct Histogram {
  static constexpr std::size_t bins = 64;

  double most = 0;
  std::array<std::uint64_t, bins> counts{};

  // The entropy of the shares of values in the bins, in bits: from 0 (all in one bin) to 6.
  double entropy() const;
};

// Statistics of the values of a tensor that do not depend on their order. All are 0 for a tensor without values.
struct TensorStatistics {
  std::size_t elements = 0;
  double mean = 0, deviation = 0;     // with the number of elements as divisor
  double skewness = 0, kurtosis = 0;  // third and fourth moment of (x - mean) / deviation; if normal, 0 and 3
  double least = 0, most = 0;
  double l1 = 0, l2 = 0;
  double zeros = 0;        // the share of elements that are zero
  double hoyer = 0;        // (sqrt(n) - l1 / l2) / (sqrt(n) - 1): from 0 (equal magnitudes) to 1 (one element)
  double top_percent = 0;  // the share of |x|^2 in the largest hundredth of the elements, at least one
  Histogram histogram{};
};

// REQUIRES finite values.
TensorStatistics statistics_of(std::span<const float> values);

// A tensor of a captured file, or all its tensors as one vector.
struct AnalysedTensor {
  bool memory = false;
  std::uint64_t step = 0;
  std::optional<int> rank{};
  std::string name;  // whole_vector: all tensors
  std::vector<std::int64_t> shape{};
  TensorStatistics statistics{};
  BasisWeights weights{};  // empty for the whole vector, and without spectra
  // For a memory: its norm as a multiple of the norm of the gradient of that step and rank, and the cosine between
  // them. Nothing if that gradient was not captured, or one of the two is zero.
  std::optional<double> beside_gradient{}, cosine_to_gradient{};

  // The number of largest singular values that together have nine tenths of |G|^2.
  std::size_t rank90() const;
};

// How far the gradients of several ranks point the same way: the mean cosine over all pairs of ranks.
struct Agreement {
  std::uint64_t step = 0;
  std::string name;
  std::size_t ranks = 0;  // the ranks whose gradient is not zero
  double cosine = 0;
};

struct GradientAnalysis {
  static constexpr std::string_view whole_vector = "(all)";

  std::vector<std::string> names;  // names of the tensors in the model's order; the whole vector is last
  std::vector<AnalysedTensor> tensors;
  std::vector<Agreement> agreements;  // of steps with several ranks
};

// Called before each part of a long work, with its name.
using AnalysisProgress = std::function<void(std::string_view part)>;

// Analyses the captured files, in the order of captured_files(). With `spectra` it computes singular values, which
// takes longest. FileError, which names the file, if it is damaged, has other tensors than the first file, or a value
// that is not finite.
GradientAnalysis analyse(std::span<const CapturedFile> files, bool spectra, const AnalysisProgress& progress);

}  // namespace sotto
