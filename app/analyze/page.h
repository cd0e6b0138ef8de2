#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/analyze/codec_study.h"
#include "app/analyze/gradient_analysis.h"

namespace sotto {

// One HTML document that needs nothing but itself: tables of all tensors and codecs, and plots of the whole vector and
// of the largest tensors. `name` is that of the captures.
std::string analysis_page(std::string_view name, const GradientAnalysis& analysis,
                          std::span<const StudiedCodec> codecs);

}  // namespace sotto
