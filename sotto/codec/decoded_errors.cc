#include "sotto/codec/decoded_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/csv_table.h"

namespace sotto {
namespace {

// Sorts both.
double wasserstein_1(std::vector<float>& a, std::vector<float>& b) {
  if (a.empty()) return 0;
  std::ranges::sort(a);
  std::ranges::sort(b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - b[i]);
  return sum / static_cast<double>(a.size());
}

}  // namespace

double magnitude_quantile(std::span<const float> x, double share) {
  if (x.empty()) return 0;
  std::vector<float> sizes(x.size());
  std::ranges::transform(x, sizes.begin(), [](float value) { return std::abs(value); });
  const double at = share * static_cast<double>(x.size() - 1);
  const auto below = sizes.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(sizes.begin(), below, sizes.end());
  const double low = *below, between = at - std::floor(at);
  if (between == 0 || below + 1 == sizes.end()) return low;
  return low + between * (*std::min_element(below + 1, sizes.end()) - low);
}

DecodedErrors errors_of(const Layout& layout, std::span<const float> input, std::span<const float> output) {
  DecodedErrors errors;
  std::vector<float> x = without_padding(layout, input), decoded = without_padding(layout, output);
  const double big = magnitude_quantile(x, 0.95);
  double norm = 0, norm_of_decoded = 0, product = 0, distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i], other = decoded[i], difference = std::abs(other - value), size = std::abs(value);
    norm += value * value;
    norm_of_decoded += other * other;
    product += value * other;
    distance += difference * difference;
    if (size == 0) continue;
    const int part = (value > 0 ? DecodedErrors::positive_big : DecodedErrors::negative_big) + (size > big ? 0 : 1);
    RelativeErrors& its = errors.relative[static_cast<std::size_t>(part)];
    ++its.elements;
    its.mean += difference / size;
    its.most = std::max(its.most, difference / size);
  }
  for (RelativeErrors& its : errors.relative) {
    if (its.elements > 0) its.mean /= static_cast<double>(its.elements);
  }
  if (norm > 0) errors.square = distance / norm;
  const double norms = std::sqrt(norm) * std::sqrt(norm_of_decoded);
  errors.cosine = norms > 0 ? product / norms : norm == norm_of_decoded ? 1 : 0;
  errors.wasserstein = wasserstein_1(x, decoded);
  return errors;
}

const CsvTable<DecodedErrors>& error_table() {
  static const CsvTable<DecodedErrors> table = [] {
    std::vector<CsvColumn<DecodedErrors>> columns{{"square_error", &DecodedErrors::square, "{:.9g}"},
                                                  {"cosine", &DecodedErrors::cosine, "{:.9g}"},
                                                  {"wasserstein1", &DecodedErrors::wasserstein, "{:.9g}"}};
    for (std::size_t i = 0; i < DecodedErrors::part_names.size(); ++i) {
      const std::string name(DecodedErrors::part_names[i]);
      const auto mean = [i](auto& errors) -> decltype(auto) { return (errors.relative[i].mean); };
      const auto most = [i](auto& errors) -> decltype(auto) { return (errors.relative[i].most); };
      columns.insert(columns.end(), {{name + "_mean", mean, "{:.9g}"}, {name + "_max", most, "{:.9g}"}});
    }
    return CsvTable(std::move(columns));
  }();
  return table;
}

}  // namespace sotto
