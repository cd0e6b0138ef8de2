#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/analyze/codec_study.h"
#include "app/analyze/gradient_analysis.h"

namespace sotto {

// A table of an analysis, for a terminal and for a page.
struct Figures {
  std::string caption;
  std::vector<std::string> headings{};
  std::size_t texts = 1;  // how many columns, from the first on, are aligned to the left
  std::vector<std::vector<std::string>> rows{};

  std::string text() const;
  std::string html(std::string_view id) const;
};

// A row for each tensor: means over the gradients of all steps and ranks.
Figures tensor_figures(const GradientAnalysis& analysis);
// A row for each step, or for `most` steps if there are more: means over the ranks, for the whole vector.
Figures step_figures(const GradientAnalysis& analysis, std::size_t most);
// A row for each codec: means over the gradients, and the largest of the largest errors.
Figures codec_figures(std::span<const StudiedCodec> codecs);
// A row for each codec and number of messages.
Figures merge_figures(std::span<const StudiedCodec> codecs);

// One self-contained HTML document: tables of all tensors and codecs, and plots of the whole vector and of the largest
// tensors. `name`: of the captures.
std::string analysis_page(std::string_view name, const GradientAnalysis& analysis,
                          std::span<const StudiedCodec> codecs);

// Writes all results into tables in a folder, which is created: tensors.csv (a row for each tensor and captured file),
// ranks.csv (cosines between ranks), histograms.csv and spectra.csv (several numbers in one cell, with spaces between
// them), and, where there are codecs, codecs.csv and merges.csv. FileError.
void write_csv(const std::filesystem::path& folder, const GradientAnalysis& analysis,
               std::span<const StudiedCodec> codecs);

}  // namespace sotto
