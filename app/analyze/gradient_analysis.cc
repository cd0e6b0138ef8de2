#include "app/analyze/gradient_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/core/error.h"

namespace sotto {
namespace {

Histogram histogram_of(std::span<const float> values, double most) {
  Histogram histogram{.most = most};
  for (const float value : values) {
    const double at = most > 0 ? (value + most) / (2 * most) * Histogram::bins : 0.5 * Histogram::bins;
    ++histogram.counts[std::min(static_cast<std::size_t>(at), Histogram::bins - 1)];
  }
  return histogram;
}

// Squares are computed as doubles: as floats they might be infinite.
double square_of_largest(std::span<const float> values) {
  std::vector<float> sizes(values.size());
  std::ranges::transform(values, sizes.begin(), [](float value) { return std::abs(value); });
  const std::size_t count = std::max<std::size_t>(1, values.size() / 100);
  const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(sizes.begin(), end - 1, sizes.end(), std::greater<>());
  return std::accumulate(sizes.begin(), end, 0.0, [](double sum, double size) { return sum + size * size; });
}

constexpr std::int64_t chunk = 64;  // of the cosine transform, as `sotto codec advise-basis` has it

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Sums unit vectors of each tensor over the ranks of a step: |sum|^2 = ranks + the cosines of all ordered pairs.
class UnitSums {
 public:
  UnitSums(const Layout& layout) : sums_(layout.size()), whole_(layout.size()), ranks_(layout.segments().size() + 1) {}

  void add(const Layout& layout, std::span<const float> values) {
    for (std::size_t s = 0; s < layout.segments().size(); ++s) {
      const Range range = layout.segments()[s].range();
      add(values.subspan(range.begin, range.size()), std::span(sums_).subspan(range.begin, range.size()), ranks_[s]);
    }
    add(values, whole_, ranks_.back());
    ++added_;
  }

  void agree(std::uint64_t step, const Layout& layout, std::vector<Agreement>& agreements) const {
    if (added_ < 2) return;
    const auto agreement = [&](std::string_view name, std::span<const double> sums, std::size_t ranks) {
      if (ranks < 2) return;
      double square = 0;
      for (const double value : sums) square += value * value;
      const double n = static_cast<double>(ranks);
      agreements.push_back({step, std::string(name), ranks, (square - n) / (n * (n - 1))});
    };
    for (std::size_t s = 0; s < layout.segments().size(); ++s) {
      const Segment& segment = layout.segments()[s];
      agreement(segment.name, std::span(sums_).subspan(segment.offset, segment.numel()), ranks_[s]);
    }
    agreement(GradientAnalysis::whole_vector, whole_, ranks_.back());
  }

 private:
  static void add(std::span<const float> values, std::span<double> sums, std::size_t& ranks) {
    const double norm = std::sqrt(dot(values, values));
    if (norm == 0) return;
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i] / norm;
    ++ranks;
  }

  std::vector<double> sums_, whole_;
  std::vector<std::size_t> ranks_;  // for each tensor, the ranks whose gradient is not zero
  std::size_t added_ = 0;
};

void compare_to(std::span<const float> gradient, std::span<const float> memory, AnalysedTensor& row) {
  const double norm = std::sqrt(dot(gradient, gradient)), held = std::sqrt(dot(memory, memory));
  if (norm == 0) return;
  row.beside_gradient = held / norm;
  if (held > 0) row.cosine_to_gradient = dot(gradient, memory) / (norm * held);
}

// If `file` is a memory, `gradient` is the gradient of its step and rank; null: it was not captured.
void add_tensors(const CapturedFile& captured, const GradientFile& file, const GradientFile* gradient, bool spectra,
                 const AnalysisProgress& progress, std::vector<AnalysedTensor>& rows) {
  for (std::size_t s = 0; s < file.layout.segments().size(); ++s) {
    const Segment& segment = file.layout.segments()[s];
    progress(segment.name);
    const auto values = std::span(file.values).subspan(segment.offset, segment.numel());
    AnalysedTensor& row = rows.emplace_back();
    row = {captured.memory, captured.step, captured.rank, segment.name, segment.shape, statistics_of(values)};
    if (spectra) {
      const Range range = file.layout.slice_range(s, s + 1);
      const auto its = std::span(file.values).subspan(range.begin, range.size());
      row.weights = std::move(weigh_bases(file.layout.slice(s, s + 1), its, chunk).front());
    }
    if (gradient != nullptr)
      compare_to(std::span(gradient->values).subspan(segment.offset, values.size()), values, row);
  }
  const auto values = without_padding(file.layout, file.values);
  AnalysedTensor& whole = rows.emplace_back();
  whole = {captured.memory,
           captured.step,
           captured.rank,
           std::string(GradientAnalysis::whole_vector),
           {static_cast<std::int64_t>(values.size())},
           statistics_of(values)};
  if (gradient != nullptr) compare_to(gradient->values, file.values, whole);
}

// Refuses files of several runs or formats, which would be taken for gradients of different ranks of one run.
void require_one_capture(std::span<const CapturedFile> files) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    const CapturedFile &one = files[i - 1], &other = files[i];
    if (one.step != other.step) continue;
    const bool is_same = one.rank == other.rank && one.memory == other.memory;
    if (!is_same && one.rank.has_value() == other.rank.has_value()) continue;
    throw FileError(fmt::format("{}: is of the same step{} as {}{}; analyse the captures of each run and format alone",
                                other.path().string(), is_same ? " and rank" : "", one.path().string(),
                                is_same ? "" : ", whose name has no rank"));
  }
}

}  // namespace

double Histogram::entropy() const {
  const double all = static_cast<double>(std::reduce(counts.begin(), counts.end()));
  double bits = 0;
  for (const std::uint64_t count : counts) {
    const double share = static_cast<double>(count) / all;
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

TensorStatistics statistics_of(std::span<const float> values) {
  TensorStatistics s;
  s.elements = values.size();
  if (values.empty()) return s;
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  std::size_t zeros = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    s.l1 += std::abs(value);
    zeros += value == 0 ? 1 : 0;
  }
  const auto [least, most] = std::ranges::minmax(values);
  s.least = least;
  s.most = most;
  s.mean = sum / n;
  s.l2 = std::sqrt(squares);
  s.zeros = static_cast<double>(zeros) / n;
  double second = 0, third = 0, fourth = 0;
  for (const double value : values) {
    const double from_mean = value - s.mean, square = from_mean * from_mean;
    second += square;
    third += square * from_mean;
    fourth += square * square;
  }
  const double variance = second / n;
  s.deviation = std::sqrt(variance);
  if (variance > 0) {
    s.skewness = third / n / (variance * s.deviation);
    s.kurtosis = fourth / n / (variance * variance);
  }
  if (squares > 0) {
    s.top_percent = square_of_largest(values) / squares;
    if (n > 1) s.hoyer = (std::sqrt(n) - s.l1 / s.l2) / (std::sqrt(n) - 1);
  }
  s.histogram = histogram_of(values, std::max(std::abs(s.least), std::abs(s.most)));
  return s;
}

std::size_t AnalysedTensor::rank90() const {
  double sum = 0, all = 0;
  for (const double value : weights.spectrum) all += value * value;
  for (std::size_t i = 0; i < weights.spectrum.size(); ++i) {
    if (sum >= 0.9 * all) return i;
    sum += weights.spectrum[i] * weights.spectrum[i];
  }
  return weights.spectrum.size();
}

GradientAnalysis analyse(std::span<const CapturedFile> files, bool spectra, const AnalysisProgress& progress) {
  require_one_capture(files);
  GradientAnalysis analysis;
  std::optional<Layout> layout;
  std::optional<UnitSums> sums;
  GradientFile gradient;  // the last gradient; the memory of its rank follows it
  const CapturedFile* before = nullptr;
  for (const CapturedFile& captured : files) {
    GradientFile file = captured.read();
    require_finite(captured.path(), file);
    if (!layout) {
      layout = file.layout;
      for (const Segment& segment : layout->segments()) analysis.names.push_back(segment.name);
      analysis.names.emplace_back(GradientAnalysis::whole_vector);
    }
    if (file.layout != *layout) {
      throw FileError(fmt::format("{}: holds other tensors than {}; analyse the captures of each run and format alone",
                                  captured.path().string(), files.front().path().string()));
    }
    if (sums && before->step != captured.step) {
      sums->agree(before->step, *layout, analysis.agreements);
      sums.reset();
    }
    if (!sums) sums.emplace(*layout);
    const bool follows = captured.memory && before != nullptr && !before->memory && before->step == captured.step &&
                         before->rank == captured.rank;
    const auto of_file = [&](std::string_view tensor) {
      progress(fmt::format("file {} of {}: {}", &captured - files.data() + 1, files.size(), tensor));
    };
    add_tensors(captured, file, follows ? &gradient : nullptr, spectra, of_file, analysis.tensors);
    if (!captured.memory) {
      sums->add(*layout, file.values);
      gradient = std::move(file);
    }
    before = &captured;
  }
  if (sums) sums->agree(before->step, *layout, analysis.agreements);
  return analysis;
}

}  // namespace sotto
