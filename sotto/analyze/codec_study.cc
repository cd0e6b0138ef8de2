#include "sotto/analyze/codec_study.h"

namespace sotto {
namespace {

constexpr std::size_t most_inputs = 16;  // of a merge: more would take memory and change nothing

void study_gradient(std::span<Codec* const> codecs, const CapturedFile& captured, int repeats,
                    std::span<StudiedCodec> studied) {
  const GradientFile file = captured.read();
  const auto measured = measure_errors(codecs, file.layout, file.values, repeats);
  for (std::size_t c = 0; c < codecs.size(); ++c) {
    studied[c].gradients.push_back({captured.step, captured.rank, measured[c].measurement, measured[c].errors});
  }
}

}  // namespace

void study(std::span<const std::unique_ptr<Codec>> codecs, std::span<const CapturedFile> files, int repeats,
           std::span<const std::size_t> merges, std::span<StudiedCodec> studied) {
  std::vector<Codec*> turns;
  for (const auto& codec : codecs) turns.push_back(codec.get());
  std::vector<GradientFile> inputs;
  for (const CapturedFile& file : files) {
    if (file.memory) continue;
    study_gradient(turns, file, repeats, studied);
    if (!merges.empty() && inputs.size() < most_inputs) inputs.push_back(file.read());
  }
  if (merges.empty() || inputs.empty()) return;
  std::vector<std::span<const float>> values;
  for (const GradientFile& input : inputs) values.emplace_back(input.values);
  for (std::size_t c = 0; c < codecs.size(); ++c) {
    const auto measured = measure_merges(*codecs[c], inputs.front().layout, values, merges);
    for (std::size_t m = 0; m < merges.size(); ++m) studied[c].merges.push_back({merges[m], measured[m]});
  }
}

}  // namespace sotto
