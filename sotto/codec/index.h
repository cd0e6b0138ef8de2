#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/workers.h"

namespace sotto {

// How the ascending numbers of the selected atoms are written (docs/wire.md): as gaps in variable-length integers, or
// as one bit an atom.
enum class IndexCode : std::uint8_t { delta, bitmap };

struct IndexPlan {
  IndexCode code = IndexCode::delta;
  std::size_t bytes = 0;
};

// The smaller of the two for these indices among `atoms` atoms; delta when they are equal.
IndexPlan plan_indices(Workers& workers, std::span<const std::uint32_t> indices, std::size_t atoms);
// The most that the smaller one can take for `count` indices.
std::size_t max_index_bytes(std::size_t count, std::size_t atoms);

// REQUIRES out.size() == plan.bytes.
void write_indices(Workers& workers, std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out);

// Fills `indices` and returns how many there are. WireError when they are more than fit, not below `atoms`, or
// when one is written with more bytes, or a bitmap with other ones, than write_indices() would.
std::size_t read_indices(Workers& workers, std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices);

}  // namespace sotto
