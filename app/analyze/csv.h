#pragma once

#include <filesystem>
#include <span>

#include "app/analyze/codec_study.h"
#include "app/analyze/gradient_analysis.h"

namespace sotto {

// Writes everything that was found into tables of a folder, which is made: tensors.csv (a row for each tensor and
// captured file), ranks.csv (cosines between ranks), histograms.csv and spectra.csv (numbers apart by spaces in one
// cell), and, where there are codecs, codecs.csv and merges.csv. FileError.
void write_csv(const std::filesystem::path& folder, const GradientAnalysis& analysis,
               std::span<const StudiedCodec> codecs);

}  // namespace sotto
