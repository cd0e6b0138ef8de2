#pragma once

#include <string>
#include <vector>

#include "app/cli/plot.h"

namespace sotto {

// The first series of the plot as lines of text, for a terminal: `width` columns and `height` lines with axes and
// title. A character is two columns of four dots (Braille). REQUIRES width >= 30, height >= 6.
std::vector<std::string> to_lines(const Plot& plot, int width, int height);

}  // namespace sotto
