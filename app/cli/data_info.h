#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// The names of all data sets, of every kind.
std::vector<std::string_view> set_names();

// `sotto data info`: describes a data set and the contents of its folder.
int run_data_info(std::span<const std::string> arguments);

}  // namespace sotto
