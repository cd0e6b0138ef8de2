#include "app/analyze/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "app/report/html_table.h"
#include "app/report/text_table.h"

namespace sotto {
namespace {

std::string short_number(double value) { return fmt::format("{:.4g}", value); }
std::string short_number(const std::optional<double>& value) { return value ? short_number(*value) : "-"; }

// The mean of a figure over the rows that a condition holds for and that have it; nothing if there are none.
template <class Row, class Condition, class Figure>
std::optional<double> mean_over(std::span<const Row> rows, Condition&& holds, Figure&& figure) {
  std::vector<double> values;
  for (const Row& row : rows) {
    if (!holds(row)) continue;
    const std::optional<double> value = figure(row);
    if (value) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

using Tensor = AnalysedTensor;

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
    const auto mean = [&](auto figure) {
      return mean_over(
          std::span<const Tensor>(analysis.tensors), [&](const Tensor& t) { return !t.memory && t.name == name; },
          [&](const Tensor& t) -> std::optional<double> { return figure(t); });
    };
    const auto spectral = [&](auto figure) {
      return mean([&](const Tensor& t) -> std::optional<double> {
        if (t.weights.spectrum.empty() || t.weights.norm == 0) return std::nullopt;
        return figure(t);
      });
    };
    const auto first = std::ranges::find(analysis.tensors, name, &Tensor::name);
    const auto entries = spectral([](const Tensor& t) { return t.weights.entries / t.weights.norm; });
    const auto svd = spectral([](const Tensor& t) { return t.weights.singular / t.weights.norm; });
    const auto cosine = mean_over(
        std::span<const Agreement>(analysis.agreements), [&](const Agreement& a) { return a.name == name; },
        [](const Agreement& a) { return std::optional(a.cosine); });
    const auto memory = mean_over(
        std::span<const Tensor>(analysis.tensors), [&](const Tensor& t) { return t.memory && t.name == name; },
        [](const Tensor& t) { return t.beside_gradient; });
    figures.rows.push_back({name, fmt::format("{}", fmt::join(first->shape, "x")),
                            short_number(mean([](const Tensor& t) { return t.statistics.l2; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.deviation; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.skewness; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.kurtosis; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.zeros; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.hoyer; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.top_percent; })),
                            short_number(mean([](const Tensor& t) { return t.statistics.histogram.entropy(); })),
                            short_number(spectral([](const Tensor& t) { return static_cast<double>(t.rank90()); })),
                            short_number(spectral([](const Tensor& t) {
                              return std::reduce(t.weights.spectrum.begin(), t.weights.spectrum.end()) / t.weights.norm;
                            })),
                            short_number(entries), short_number(svd),
                            !svd               ? "-"
                            : *svd <= *entries ? "svd"
                                               : "entries",
                            short_number(cosine), short_number(memory)});
  }
  return figures;
}

Figures step_figures(const GradientAnalysis& analysis, std::size_t most) {
  Figures figures{"Steps: all tensors as one vector, means over the ranks",
                  {"step", "|x|", "deviation", "kurtosis", "zeros", "hoyer", "largest 1 %", "entropy", "rank cosine",
                   "memory / |x|", "memory cosine"},
                  0};
  std::set<std::uint64_t> known;
  for (const Tensor& t : analysis.tensors) known.insert(t.step);
  for (const std::uint64_t step : some_of(std::vector(known.begin(), known.end()), most)) {
    const auto mean = [&](bool memory, auto figure) {
      return short_number(mean_over(
          std::span<const Tensor>(analysis.tensors),
          [&](const Tensor& t) {
            return t.memory == memory && t.step == step && t.name == GradientAnalysis::whole_vector;
          },
          [&](const Tensor& t) -> std::optional<double> { return figure(t); }));
    };
    figures.rows.push_back(
        {std::to_string(step), mean(false, [](const Tensor& t) { return t.statistics.l2; }),
         mean(false, [](const Tensor& t) { return t.statistics.deviation; }),
         mean(false, [](const Tensor& t) { return t.statistics.kurtosis; }),
         mean(false, [](const Tensor& t) { return t.statistics.zeros; }),
         mean(false, [](const Tensor& t) { return t.statistics.hoyer; }),
         mean(false, [](const Tensor& t) { return t.statistics.top_percent; }),
         mean(false, [](const Tensor& t) { return t.statistics.histogram.entropy(); }),
         short_number(mean_over(
             std::span<const Agreement>(analysis.agreements),
             [&](const Agreement& a) { return a.step == step && a.name == GradientAnalysis::whole_vector; },
             [](const Agreement& a) { return std::optional(a.cosine); })),
         mean(true, [](const Tensor& t) { return t.beside_gradient; }),
         mean(true, [](const Tensor& t) { return t.cosine_to_gradient; })});
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
    row.push_back(mean([](const StudiedGradient& g) { return g.measurement.ratio; }));
    row.push_back(mean([](const StudiedGradient& g) { return g.measurement.encode_gbps; }));
    row.push_back(mean([](const StudiedGradient& g) { return g.measurement.decode_gbps; }));
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
