#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sotto::svg {

// Colours that colour-blind readers can tell apart, also in grey (Okabe, Ito).
inline constexpr std::array<std::string_view, 6> colours{"#0072b2", "#d55e00", "#009e73",
                                                         "#cc79a7", "#e69f00", "#56b4e9"};

// `content` on white, as a self-contained document.
std::string document(double width, double height, std::string_view content);

}  // namespace sotto::svg
