#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// The weight of the atoms of each basis for one segment. With an average budget of B floats, ATOMO has the variance
// weight^2 / B - |G|^2 (while no atom is certain), so the basis with the smallest weight is best (Wang et al., NeurIPS
// 2018, section 4). An entry or coefficient costs one float, and a singular triplet costs rows + columns floats.
struct BasisWeights {
  double entries = 0;               // |G|_1
  double singular = 0;              // sqrt(rows + columns) * sum of singular values
  double cosine = 0;                // |DCT of chunks|_1
  double norm = 0;                  // |G|_2
  std::vector<double> spectrum{};   // the singular values, from the largest on
  std::string_view advice() const;  // "entries", "svd" or "dct"; "any" if the segment is all zero
};

// The weights of each segment, in the layout's order. `chunk` is the chunk of the cosine transform. NumericError, which
// names the segment, if a value is not finite.
std::vector<BasisWeights> weigh_bases(const Layout& layout, std::span<const float> values, std::int64_t chunk);

}  // namespace sotto
