#include "app/analyze/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "app/report/html.h"
#include "app/report/text_table.h"

namespace sotto {
namespace {

std::string short_number(double value) { return fmt::format("{:.4g}", value); }
std::string short_number(const std::optional<double>& value) { return value ? short_number(*value) : "-"; }

using Tensor = AnalysedTensor;
using Statistics = TensorStatistics;

// The mean of a figure over the rows that meet the condition and have the figure; nothing if there are none.
template <class Row, class Condition, class Figure>
std::optional<double> mean_over(const std::vector<Row>& rows, Condition&& holds, Figure&& figure) {
  double sum = 0, count = 0;
  for (const Row& row : rows) {
    if (!holds(row)) continue;
    const std::optional<double> value = std::invoke(figure, row);
    sum += value.value_or(0);
    count += value ? 1 : 0;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

// Over the gradients or memories of all ranks, of this step or of all.
template <class Figure>
std::optional<double> mean_of_tensors(const GradientAnalysis& analysis, bool memory, std::string_view name,
                                      std::optional<std::uint64_t> step, Figure&& figure) {
  const auto holds = [&](const Tensor& t) {
    return t.memory == memory && t.name == name && t.step == step.value_or(t.step);
  };
  return mean_over(analysis.tensors, holds, figure);
}

std::optional<double> mean_agreement(const GradientAnalysis& analysis, std::string_view name,
                                     std::optional<std::uint64_t> step) {
  const auto holds = [&](const Agreement& a) { return a.name == name && a.step == step.value_or(a.step); };
  return mean_over(analysis.agreements, holds, &Agreement::cosine);
}

double entropy_of(const Tensor& t) { return t.statistics.histogram.entropy(); }

// At most `most` of the items, evenly spread, the first and the last among them.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

}  // namespace

std::string Figures::text() const {
  TextTable table(headings);
  for (std::size_t column = 0; column < texts; ++column) table.left(column);
  for (const auto& row : rows) table.add(row);
  return fmt::format("{}\n\n{}", caption, table.plain());
}

std::string Figures::html(std::string_view id) const {
  const auto cells = [](const std::vector<std::string>& texts_of) {
    std::vector<HtmlCell> row;
    for (const std::string& text : texts_of) row.push_back({text});
    return row;
  };
  HtmlTable table(id, caption, cells(headings));
  for (const auto& row : rows) table.add(cells(row));
  return table.html();
}

Figures tensor_figures(const GradientAnalysis& analysis) {
  Figures figures{"Tensors: means over all steps and ranks",
                  {"tensor", "shape", "|x|", "deviation", "skewness", "kurtosis", "zeros", "hoyer", "largest 1 %",
                   "entropy", "rank 90 %", "nuclear / |x|", "entries", "svd", "better", "rank cosine", "memory / |x|"},
                  2};
  for (const std::string& name : analysis.names) {
    const auto mean = [&](bool memory, auto figure) { return mean_of_tensors(analysis, memory, name, {}, figure); };
    const auto spectral = [&](auto figure) {
      return mean(false, [&](const Tensor& t) -> std::optional<double> {
        if (t.weights.spectrum.empty() || t.weights.norm == 0) return std::nullopt;
        return figure(t);
      });
    };
    const auto first = std::ranges::find(analysis.tensors, name, &Tensor::name);
    const auto entries = spectral([](const Tensor& t) { return t.weights.entries / t.weights.norm; });
    const auto svd = spectral([](const Tensor& t) { return t.weights.singular / t.weights.norm; });
    std::vector<std::string>& row = figures.rows.emplace_back();
    row = {name, fmt::format("{}", fmt::join(first->shape, "x"))};
    for (const auto figure : {&Statistics::l2, &Statistics::deviation, &Statistics::skewness, &Statistics::kurtosis,
                              &Statistics::zeros, &Statistics::hoyer, &Statistics::top_percent}) {
      row.push_back(short_number(mean(false, [&](const Tensor& t) { return t.statistics.*figure; })));
    }
    row.push_back(short_number(mean(false, entropy_of)));
    row.push_back(short_number(spectral([](const Tensor& t) { return static_cast<double>(t.rank90()); })));
    row.push_back(short_number(spectral([](const Tensor& t) {
      return std::reduce(t.weights.spectrum.begin(), t.weights.spectrum.end()) / t.weights.norm;
    })));
    row.push_back(short_number(entries));
    row.push_back(short_number(svd));
    row.emplace_back(!svd ? "-" : *svd <= *entries ? "svd" : "entries");
    row.push_back(short_number(mean_agreement(analysis, name, {})));
    row.push_back(short_number(mean(true, &Tensor::beside_gradient)));
  }
  return figures;
}

Figures step_figures(const GradientAnalysis& analysis, std::size_t most) {
  Figures figures{"Steps: all tensors as one vector, means over the ranks",
                  {"step", "|x|", "deviation", "kurtosis", "zeros", "hoyer", "largest 1 %", "entropy", "rank cosine",
                   "memory / |x|", "memory cosine"},
                  0};
  constexpr std::string_view whole = GradientAnalysis::whole_vector;
  std::set<std::uint64_t> known;
  for (const Tensor& t : analysis.tensors) known.insert(t.step);
  for (const std::uint64_t step : some_of(std::vector(known.begin(), known.end()), most)) {
    std::vector<std::string>& row = figures.rows.emplace_back();
    row = {std::to_string(step)};
    const auto add = [&](bool memory, auto figure) {
      row.push_back(short_number(mean_of_tensors(analysis, memory, whole, step, figure)));
    };
    for (const auto figure : {&Statistics::l2, &Statistics::deviation, &Statistics::kurtosis, &Statistics::zeros,
                              &Statistics::hoyer, &Statistics::top_percent}) {
      add(false, [&](const Tensor& t) { return t.statistics.*figure; });
    }
    add(false, entropy_of);
    row.push_back(short_number(mean_agreement(analysis, whole, step)));
    add(true, &Tensor::beside_gradient);
    add(true, &Tensor::cosine_to_gradient);
  }
  return figures;
}

Figures codec_figures(std::span<const StudiedCodec> codecs) {
  Figures figures{
      "Codecs: means over the captured gradients; relative error: |x' - x| / |x| of vectors, then of elements x > 0 "
      "and "
      "x < 0 (+, -), above and below the 95th percentile of |x| (big, small)",
      {"codec", "bytes", "ratio", "encode GB/s", "decode GB/s", "relative error", "cosine", "Wasserstein-1", "+big",
       "+small", "-big", "-small", "largest"}};
  for (const StudiedCodec& codec : codecs) {
    if (codec.gradients.empty()) continue;
    const auto mean = [&](auto figure) {
      double sum = 0;
      for (const StudiedGradient& g : codec.gradients) sum += figure(g);
      return short_number(sum / static_cast<double>(codec.gradients.size()));
    };
    std::vector<std::string> row{codec.text};
    double bytes = 0, largest = 0;
    for (const StudiedGradient& g : codec.gradients) {
      bytes += static_cast<double>(g.measurement.bytes) / static_cast<double>(codec.gradients.size());
      for (const RelativeErrors& errors : g.errors.relative) largest = std::max(largest, errors.most);
    }
    row.push_back(fmt::format("{:.0f}", bytes));
    for (const auto figure : {&Measurement::ratio, &Measurement::encode_gbps, &Measurement::decode_gbps}) {
      row.push_back(mean([&](const StudiedGradient& g) { return g.measurement.*figure; }));
    }
    row.push_back(mean([](const StudiedGradient& g) { return std::sqrt(g.errors.square); }));
    row.push_back(mean([](const StudiedGradient& g) { return g.errors.cosine; }));
    row.push_back(mean([](const StudiedGradient& g) { return g.errors.wasserstein; }));
    for (std::size_t part = 0; part < DecodedErrors::part_names.size(); ++part) {
      row.push_back(mean([&](const StudiedGradient& g) { return g.errors.relative[part].mean; }));
    }
    row.push_back(short_number(largest));
    figures.rows.push_back(std::move(row));
  }
  return figures;
}

Figures merge_figures(std::span<const StudiedCodec> codecs) {
  Figures figures{
      "Merges: messages that are opened and added to one vector, one by one or merged before they are "
      "decoded; error: |sum - wanted| / |wanted|",
      {"codec", "messages", "ms", "ms a message", "error", "merged ms", "times as fast", "merged error"}};
  for (const StudiedCodec& codec : codecs) {
    for (const auto& [messages, measured] : codec.merges) {
      const auto& [each, merged] = measured;
      figures.rows.push_back({codec.text, std::to_string(messages), short_number(1e3 * each.seconds),
                              short_number(1e3 * each.seconds / static_cast<double>(messages)),
                              short_number(each.error), merged ? short_number(1e3 * merged->seconds) : "",
                              merged ? short_number(each.seconds / merged->seconds) : "",
                              merged ? short_number(merged->error) : ""});
    }
  }
  return figures;
}

}  // namespace sotto
