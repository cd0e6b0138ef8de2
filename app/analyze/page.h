#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/analyze/codec_study.h"
#include "app/analyze/gradient_analysis.h"

namespace sotto {

// One self-contained HTML document: tables of all tensors and codecs, and plots of the whole vector and of the largest
// tensors. `name`: of the captures.
std::string analysis_page(std::string_view name, const GradientAnalysis& analysis,
                          std::span<const StudiedCodec> codecs);

}  // namespace sotto
