#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// What the atoms of each basis weigh for one segment. To send them with as many floats B on average, ATOMO has the
// variance weight^2 / B - |G|^2 (while no atom is certain): the smallest weight is the basis to take (Wang et al.,
// NeurIPS 2018, section 4). Entries and coefficients cost one float each, a singular triplet rows + columns.
struct BasisWeights {
  double entries = 0;               // |G|_1
  double singular = 0;              // sqrt(rows + columns) * sum of singular values
  double cosine = 0;                // |DCT of chunks|_1
  double norm = 0;                  // |G|_2
  std::string_view advice() const;  // "entries", "svd" or "dct"; "any" of a segment that is all zero
};

// In the order of the layout's segments. `chunk` is that of the cosine transform. NumericError, which names the
// segment, when a value is not finite.
std::vector<BasisWeights> weigh_bases(const Layout& layout, std::span<const float> values, std::int64_t chunk);

}  // namespace sotto
