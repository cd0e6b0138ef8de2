#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/core/layout.h"

namespace sotto {

template <class Row>
class CsvTable;

// The relative errors |x' - x| / |x| of some elements. Elements that are zero have none.
struct RelativeErrors {
  std::size_t elements = 0;
  double mean = 0, most = 0;  // 0 without elements
};

// How far a decoded vector x' is from the vector x that was encoded.
struct DecodedErrors {
  enum Part : std::uint8_t { positive_big, positive_small, negative_big, negative_small };
  static constexpr std::array<std::string_view, 4> part_names{"positive_big", "positive_small", "negative_big",
                                                              "negative_small"};

  double square = 0;       // |x - x'|^2 / |x|^2; 0 for x = 0
  double cosine = 0;       // of the angle between x and x'; 0 if one of them is zero, 1 if both are
  double wasserstein = 0;  // Wasserstein-1 of their values: the mean distance of the i-th smallest of each
  std::array<RelativeErrors, 4> relative{};  // by Part, the sign and size of x; big: |x| above its 95th percentile
};

// Compares two vectors of this layout, without their padding. Sorts copies of both.
DecodedErrors errors_of(const Layout& layout, std::span<const float> x, std::span<const float> decoded);

// The columns of DecodedErrors in tables: "square_error,cosine,...".
const CsvTable<DecodedErrors>& error_table();

// The quantile of |x| for a share of the values, interpolated between the two nearest magnitudes; 0 without values.
double magnitude_quantile(std::span<const float> x, double share);

}  // namespace sotto
