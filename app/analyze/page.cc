#include "app/analyze/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <numeric>

#include "app/report/html.h"

namespace sotto {
namespace {

constexpr std::size_t most_tensors = 9;   // drawn in addition to the whole vector: the page has ten colours
constexpr std::size_t most_places = 200;  // of a line

using Tensor = AnalysedTensor;
using Figure = std::function<std::optional<double>(const Tensor&)>;

// The names of the tensors that are drawn: the whole vector, and the largest ones in the model's order.
std::vector<std::string> drawn_names(const GradientAnalysis& analysis) {
  const auto elements = [&](const std::string& name) {
    return std::ranges::find(analysis.tensors, name, &Tensor::name)->statistics.elements;
  };
  std::vector<std::string> by_size(analysis.names.begin(), analysis.names.end() - 1);
  std::ranges::stable_sort(by_size, std::ranges::greater{}, elements);
  by_size.resize(std::min(by_size.size(), most_tensors));
  std::vector<std::string> names{analysis.names.back()};
  for (const std::string& name : analysis.names) {
    if (std::ranges::find(by_size, name) != by_size.end()) names.push_back(name);
  }
  return names;
}

struct Places {
  std::vector<double> x, mean, low, high;

  void add(double at, const std::vector<double>& values) {
    x.push_back(at);
    mean.push_back(std::reduce(values.begin(), values.end()) / static_cast<double>(values.size()));
    low.push_back(std::ranges::min(values));
    high.push_back(std::ranges::max(values));
  }
};

// A plot with its own horizontal axis.
class Plot {
 public:
  Plot(std::string_view id, std::string_view title, std::string_view across)
      : json_{{"id", id}, {"title", title}, {"across", across}, {"lines", Json::array()}} {}

  void add(std::size_t group, std::string_view name, const Places& all) {
    if (all.x.empty()) return;
    Places some;
    const std::size_t count = std::min(all.x.size(), most_places);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = count == 1 ? 0 : k * (all.x.size() - 1) / (count - 1);
      for (const auto part : {&Places::x, &Places::mean, &Places::low, &Places::high}) {
        (some.*part).push_back((all.*part)[i]);
      }
    }
    Json line{{"group", group}, {"name", name}, {"x", numbers(some.x)}, {"mean", numbers(some.mean)}};
    if (some.low != some.high) {
      line["low"] = numbers(some.low);
      line["high"] = numbers(some.high);
    }
    json_["lines"].push_back(std::move(line));
  }
  void append_to(Json& plots) {
    if (!json_["lines"].empty()) plots.push_back(std::move(json_));
  }

 private:
  Json json_;
};

// A figure over the steps: mean, least and greatest of the ranks.
Places over_steps(const GradientAnalysis& analysis, bool memory, const std::string& name, const Figure& figure) {
  std::map<std::uint64_t, std::vector<double>> by_step;
  for (const Tensor& t : analysis.tensors) {
    if (t.memory != memory || t.name != name) continue;
    if (const auto value = figure(t)) by_step[t.step].push_back(*value);
  }
  Places places;
  for (const auto& [step, values] : by_step) places.add(static_cast<double>(step), values);
  return places;
}

void add_over_steps(const GradientAnalysis& analysis, std::span<const std::string> names, std::string_view id,
                    std::string_view title, std::initializer_list<bool> of_memories, const Figure& figure,
                    Json& plots) {
  Plot plot(id, title, "step");
  for (std::size_t g = 0; g < names.size(); ++g) {
    for (const bool of_memory : of_memories) {
      plot.add(g, of_memory ? "memory" : "gradient", over_steps(analysis, of_memory, names[g], figure));
    }
  }
  plot.append_to(plots);
}

void add_agreements(const GradientAnalysis& analysis, std::span<const std::string> names, Json& plots) {
  Plot plot("rank-cosine", "Cosine between the gradients of ranks", "step");
  for (std::size_t g = 0; g < names.size(); ++g) {
    Places places;
    for (const Agreement& a : analysis.agreements) {
      if (a.name == names[g]) places.add(static_cast<double>(a.step), {a.cosine});
    }
    plot.add(g, "gradient", places);
  }
  plot.append_to(plots);
}

// Histograms and singular values of the last gradient.
void add_last(const GradientAnalysis& analysis, std::span<const std::string> names, Json& plots) {
  const auto last =
      std::find_if(analysis.tensors.rbegin(), analysis.tensors.rend(), [](const Tensor& t) { return !t.memory; });
  if (last == analysis.tensors.rend()) return;
  const std::string where =
      fmt::format("step {}{}", last->step, last->rank ? fmt::format(", rank {}", *last->rank) : "");
  Plot histogram("histogram", fmt::format("Histogram: share of the elements at {}", where),
                 "value / largest magnitude");
  Plot spectrum("spectrum", fmt::format("Singular values, of the largest one, at {}", where),
                "number of the singular value");
  for (const Tensor& t : analysis.tensors) {
    const auto g = static_cast<std::size_t>(std::ranges::find(names, t.name) - names.begin());
    if (t.memory || t.step != last->step || t.rank != last->rank || g == names.size()) continue;
    Places bins, values;
    for (std::size_t b = 0; b < Histogram::bins; ++b) {
      bins.add((2 * static_cast<double>(b) + 1) / Histogram::bins - 1,
               {static_cast<double>(t.statistics.histogram.counts[b]) / static_cast<double>(t.statistics.elements)});
    }
    histogram.add(g, "gradient", bins);
    const std::vector<double>& all = t.weights.spectrum;
    for (std::size_t i = 0; i < all.size() && all.size() > 1 && all[0] > 0; ++i) {
      values.add(static_cast<double>(i + 1), {all[i] / all[0]});
    }
    spectrum.add(g, "gradient", values);
  }
  histogram.append_to(plots);
  spectrum.append_to(plots);
}

// Groups of codecs come after the `first` groups of tensors.
void add_codecs(std::span<const StudiedCodec> codecs, std::size_t first, Json& plots) {
  Plot errors("codec-errors", "Relative errors of codecs: |x' - x| / |x|", "step");
  Plot merges("merges", "Milliseconds to add up messages, merged where that is possible", "messages");
  for (std::size_t c = 0; c < codecs.size(); ++c) {
    std::map<std::uint64_t, std::vector<double>> by_step;
    for (const StudiedGradient& g : codecs[c].gradients) by_step[g.step].push_back(std::sqrt(g.errors.square));
    Places over, times;
    for (const auto& [step, values] : by_step) over.add(static_cast<double>(step), values);
    for (const auto& [messages, measured] : codecs[c].merges) {
      const double seconds = measured.merged ? measured.merged->seconds : measured.each.seconds;
      times.add(static_cast<double>(messages), {1e3 * seconds});
    }
    errors.add(first + c, "codec", over);
    merges.add(first + c, "codec", times);
  }
  errors.append_to(plots);
  merges.append_to(plots);
}

std::string data_of(const GradientAnalysis& analysis, std::span<const StudiedCodec> codecs) {
  const auto names = drawn_names(analysis);
  Json json{{"groups", Json::array()}, {"plots", Json::array()}};
  for (const std::string& name : names) json["groups"].push_back({{"name", name}, {"title", name}, {"runs", 1}});
  for (const StudiedCodec& codec : codecs)
    json["groups"].push_back({{"name", codec.text}, {"title", codec.text}, {"runs", 1}});
  Json& plots = json["plots"];
  add_over_steps(
      analysis, names, "norms", "Norm of gradients, and of what memories hold", {false, true},
      [](const Tensor& t) { return t.statistics.l2; }, plots);
  const auto gradients = [&](std::string_view id, std::string_view title, const Figure& figure) {
    add_over_steps(analysis, names, id, title, {false}, figure, plots);
  };
  gradients("entropy", "Entropy of the histogram, in bits",
            [](const Tensor& t) { return t.statistics.histogram.entropy(); });
  gradients("kurtosis", "Kurtosis (3: normal)", [](const Tensor& t) { return t.statistics.kurtosis; });
  gradients("hoyer", "Sparsity (Hoyer: 0 for equal magnitudes, 1 for one element)",
            [](const Tensor& t) { return t.statistics.hoyer; });
  gradients("basis", "Weight of singular values / weight of entries (below 1: svd sparsifies better)",
            [](const Tensor& t) -> std::optional<double> {
              if (t.weights.spectrum.empty() || t.weights.entries == 0) return std::nullopt;
              return t.weights.singular / t.weights.entries;
            });
  add_agreements(analysis, names, plots);
  add_over_steps(
      analysis, names, "memory-beside", "Norm of the memory / norm of the gradient", {true},
      [](const Tensor& t) { return t.beside_gradient; }, plots);
  add_last(analysis, names, plots);
  add_codecs(codecs, names.size(), plots);
  return for_page(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string analysis_page(std::string_view name, const GradientAnalysis& analysis,
                          std::span<const StudiedCodec> codecs) {
  PageFrame page{.title = fmt::format("Gradients in {}", name), .data = data_of(analysis, codecs)};
  if (!codecs.empty()) page.add("codecs", "Codecs", codec_figures(codecs).html("codecs-table"));
  if (const Figures merges = merge_figures(codecs); !merges.rows.empty()) {
    page.add("merges", "Merges", merges.html("merges-table"));
  }
  page.add("steps", "Steps", step_figures(analysis, most_places).html("steps-table"));
  page.add("tensors", "Tensors", tensor_figures(analysis).html("tensors-table"));
  page.add("curves", "Plots",
           fmt::format("<p>Of the whole vector and of the {} largest tensors. Bands are from the least to the greatest "
                       "of the ranks.</p>\n{}",
                       drawn_names(analysis).size() - 1, PageFrame::plots));
  return page.html();
}

}  // namespace sotto
