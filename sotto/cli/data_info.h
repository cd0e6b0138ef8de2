#pragma once

#include <span>
#include <string>

namespace sotto {

// `sotto data info`: what a data set is, and what was found in its folder.
int run_data_info(std::span<const std::string> arguments);

}  // namespace sotto
