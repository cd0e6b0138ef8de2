#include "app/analyze/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "sotto/core/csv_table.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

// Nine digits; an empty cell where nothing is known.
std::string cell(double value) { return fmt::format("{:.9g}", value); }
std::string cell(const std::optional<double>& value) { return value ? cell(*value) : ""; }
std::string cell(const std::optional<int>& rank) { return rank ? fmt::to_string(*rank) : ""; }

// The columns that say which tensor of which file a row is about.
constexpr std::string_view about_columns = "kind,step,rank,tensor";
std::string about(const AnalysedTensor& t) {
  return fmt::format("{},{},{},{}", t.memory ? "memory" : "gradient", t.step, cell(t.rank), in_quotes(t.name));
}

std::string tensors_csv(const GradientAnalysis& analysis) {
  std::string text = fmt::format(
      "{},shape,elements,mean,deviation,skewness,kurtosis,min,max,l1,l2,zeros,hoyer,top_percent,entropy_bits,rank90,"
      "nuclear,weight_entries,weight_svd,weight_dct,advice,beside_gradient,cosine_to_gradient\n",
      about_columns);
  for (const AnalysedTensor& t : analysis.tensors) {
    const TensorStatistics& s = t.statistics;
    text += fmt::format("{},{},{}", about(t), fmt::join(t.shape, "x"), s.elements);
    for (const double figure : {s.mean, s.deviation, s.skewness, s.kurtosis, s.least, s.most, s.l1, s.l2, s.zeros,
                                s.hoyer, s.top_percent, s.histogram.entropy()}) {
      text += "," + cell(figure);
    }
    if (t.weights.spectrum.empty()) {
      text += ",,,,,,";
    } else {
      const BasisWeights& w = t.weights;
      const double norm = w.norm > 0 ? w.norm : 1;
      text += fmt::format(",{},{},{},{},{},{}", t.rank90(), cell(std::reduce(w.spectrum.begin(), w.spectrum.end())),
                          cell(w.entries / norm), cell(w.singular / norm), cell(w.cosine / norm), w.advice());
    }
    text += fmt::format(",{},{}\n", cell(t.beside_gradient), cell(t.cosine_to_gradient));
  }
  return text;
}

std::string ranks_csv(const GradientAnalysis& analysis) {
  std::string text = "step,tensor,ranks,cosine\n";
  for (const Agreement& a : analysis.agreements) {
    text += fmt::format("{},{},{},{}\n", a.step, in_quotes(a.name), a.ranks, cell(a.cosine));
  }
  return text;
}

std::string histograms_csv(const GradientAnalysis& analysis) {
  std::string text = fmt::format("{},low,high,counts\n", about_columns);
  for (const AnalysedTensor& t : analysis.tensors) {
    const Histogram& h = t.statistics.histogram;
    text += fmt::format("{},{},{},{}\n", about(t), cell(-h.most), cell(h.most), fmt::join(h.counts, " "));
  }
  return text;
}

std::string spectra_csv(const GradientAnalysis& analysis) {
  std::string text = fmt::format("{},singular_values\n", about_columns);
  for (const AnalysedTensor& t : analysis.tensors) {
    if (!t.weights.spectrum.empty()) text += fmt::format("{},{:.9g}\n", about(t), fmt::join(t.weights.spectrum, " "));
  }
  return text;
}

std::string codecs_csv(std::span<const StudiedCodec> codecs) {
  std::string text = fmt::format("codec,value,step,rank,elements,bytes,ratio,encode_gbps,decode_gbps,memcpy_gbps,{}",
                                 error_table().header());
  for (const StudiedCodec& codec : codecs) {
    for (const StudiedGradient& g : codec.gradients) {
      const Measurement& m = g.measurement;
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}", in_quotes(codec.text), in_quotes(codec.value), g.step,
                          cell(g.rank), m.elements, m.bytes, cell(m.ratio), cell(m.encode_gbps), cell(m.decode_gbps),
                          cell(m.memcpy_gbps), error_table().line(g.errors));
    }
  }
  return text;
}

std::string merges_csv(std::span<const StudiedCodec> codecs) {
  std::string text = "codec,value,messages,seconds,error,merged_seconds,merged_error\n";
  for (const StudiedCodec& codec : codecs) {
    for (const Merge& merge : codec.merges) {
      const auto& [each, merged] = merge.measured;
      text += fmt::format("{},{},{},{},{},{},{}\n", in_quotes(codec.text), in_quotes(codec.value), merge.messages,
                          cell(each.seconds), cell(each.error), merged ? cell(merged->seconds) : "",
                          merged ? cell(merged->error) : "");
    }
  }
  return text;
}

}  // namespace

void write_csv(const std::filesystem::path& folder, const GradientAnalysis& analysis,
               std::span<const StudiedCodec> codecs) {
  make_folder(folder);
  write_file_atomic(folder / "tensors.csv", tensors_csv(analysis));
  write_file_atomic(folder / "ranks.csv", ranks_csv(analysis));
  write_file_atomic(folder / "histograms.csv", histograms_csv(analysis));
  write_file_atomic(folder / "spectra.csv", spectra_csv(analysis));
  if (codecs.empty()) return;
  write_file_atomic(folder / "codecs.csv", codecs_csv(codecs));
  write_file_atomic(folder / "merges.csv", merges_csv(codecs));
}

}  // namespace sotto
