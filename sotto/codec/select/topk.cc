#include "sotto/codec/select/topk.h"

#include <algorithm>

namespace sotto {

std::size_t TopK::most(std::size_t atoms) const {
  return options_.count ? std::min(atoms, static_cast<std::size_t>(*options_.count)) : share_of(options_.ratio, atoms);
}

}  // namespace sotto
