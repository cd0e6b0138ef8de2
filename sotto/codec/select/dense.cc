#include "sotto/codec/select/dense.h"

#include <fmt/format.h>

#include <limits>

#include "sotto/core/error.h"

namespace sotto {

// Each number has only one valid text: codecs whose texts differ do not understand each other's messages.
std::string DenseOption::problem() const {
  constexpr double most = 4294967295.0;  // the most elements of a message
  if (dense == "all") return "";
  try {
    if (fmt::to_string(parse_int("dense", dense, Bounds{0, most})) == dense) return "";
    return fmt::format("dense must be written without leading zeros, not `{}`", dense);
  } catch (const ConfigError& error) {
    return fmt::format("{}, or `all`", error.what());
  }
}

std::size_t DenseOption::most_dense() const {
  return dense == "all" ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(parse_int("dense", dense));
}

}  // namespace sotto
