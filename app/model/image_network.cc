#include "app/model/image_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {

bool FormOptions::for_large(const ImageShape& shape, std::int64_t least_side) const {
  constexpr std::int64_t largest_small = 64;
  const std::int64_t side = std::min(shape.height, shape.width);
  if (form == "cifar" || (form == "auto" && side <= largest_small)) return false;
  if (side >= least_side) return true;
  throw ConfigError(fmt::format("the ImageNet form wants images of at least {}x{} pixels, these are {}x{}", least_side,
                                least_side, shape.height, shape.width));
}

}  // namespace sotto
