#include "sotto/optim/stretch.h"

#include <stdexcept>

namespace sotto {

void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                     std::size_t all) {
  if (parameters.size() == mean.size() && begin <= all && parameters.size() <= all - begin) return;
  throw std::logic_error("Optimiser: a stretch that is not part of the parameters");
}

}  // namespace sotto
