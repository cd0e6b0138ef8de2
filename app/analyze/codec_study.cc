#include "app/analyze/codec_study.h"

#include <fmt/format.h>

namespace sotto {
namespace {

constexpr std::size_t most_inputs = 16;  // of a merge: more would take memory and change nothing

}  // namespace

void study(std::span<const std::unique_ptr<Codec>> codecs, std::span<const CapturedFile> files, int repeats,
           std::span<const std::size_t> merges, const AnalysisProgress& progress, std::span<StudiedCodec> studied) {
  std::vector<Codec*> turns;
  for (const auto& codec : codecs) turns.push_back(codec.get());
  std::vector<GradientFile> inputs;
  for (std::size_t f = 0; f < files.size() && !turns.empty(); ++f) {
    if (files[f].memory) continue;
    progress(fmt::format("codecs on file {} of {}", f + 1, files.size()));
    GradientFile file = files[f].read();
    const auto buckets = plan_buckets(file.layout, std::numeric_limits<std::size_t>::max());
    const auto measured = measure_errors(turns, file.layout, buckets, file.values, repeats);
    for (std::size_t c = 0; c < turns.size(); ++c) {
      studied[c].gradients.push_back({files[f].step, files[f].rank, measured[c].measurement, measured[c].errors});
    }
    if (!merges.empty() && inputs.size() < most_inputs) inputs.push_back(std::move(file));
  }
  if (merges.empty() || inputs.empty()) return;
  std::vector<std::span<const float>> values;
  for (const GradientFile& input : inputs) values.emplace_back(input.values);
  for (std::size_t c = 0; c < codecs.size(); ++c) {
    progress(fmt::format("merges of codec {} of {}", c + 1, codecs.size()));
    const auto measured = measure_merges(*codecs[c], inputs.front().layout, values, merges);
    for (std::size_t m = 0; m < merges.size(); ++m) studied[c].merges.push_back({merges[m], measured[m]});
  }
}

}  // namespace sotto
