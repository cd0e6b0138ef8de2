#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sotto/codec/quantise/cluster_training.h"
#include "sotto/kernels/clusters.h"

namespace sotto {

// The buckets that belong to each cluster.
inline std::array<kernels::Table, most_clusters> tables_of(std::span<const std::uint32_t> sizes) {
  std::array<kernels::Table, most_clusters> tables{};
  std::uint32_t first = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    tables[k] = {first, sizes[k]};
    first += sizes[k];
  }
  return tables;
}

}  // namespace sotto
