#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/analyze/gradient_analysis.h"
#include "app/train/record/capture.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/decoded_errors.h"
#include "sotto/codec/measure.h"

namespace sotto {

// A codec and one captured gradient.
struct StudiedGradient {
  std::uint64_t step = 0;
  std::optional<int> rank{};
  Measurement measurement{};
  DecodedErrors errors{};  // of the last repeat
};

// How long it takes to add up so many messages of a codec, and how far the result is from the sum of the vectors.
struct Merge {
  std::size_t messages = 0;
  MeasuredMerge measured{};
};

// A codec, its messages and errors for each captured gradient, and how long merges take.
struct StudiedCodec {
  std::string text;     // canonical
  std::string value{};  // of the swept parameter; empty: none
  std::vector<StudiedGradient> gradients{};
  std::vector<Merge> merges{};
};

// Measures the codecs in turns on each gradient among the files (measure()). Then measures merges of these numbers of
// messages, which at most 16 of the gradients give. Fills in `studied`, except texts and values. FileError.
void study(std::span<const std::unique_ptr<Codec>> codecs, std::span<const CapturedFile> files, int repeats,
           std::span<const std::size_t> merges, const AnalysisProgress& progress, std::span<StudiedCodec> studied);

}  // namespace sotto
