#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"

namespace sotto {

// How the ascending numbers of the selected atoms are written (docs/wire): as gaps in variable-length integers, as
// one bit an atom, as gaps in Rice's code, or as runs of skipped atoms in 16 bits. The values are those of the header.
enum class IndexCode : std::uint8_t { delta, bitmap, rice, runs };

struct IndexPlan {
  IndexCode code = IndexCode::delta;
  std::size_t bytes = 0;
  unsigned shift = 0;  // of Rice's code: the bits of a remainder
};

// The smallest of all for these indices among `atoms` atoms; of equal ones delta, then the bitmap, then runs.
IndexPlan plan_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, std::size_t atoms);
// The most that the smallest one can take for `count` indices or fewer. (Of delta and bitmap alone, so that messages
// from before there were others are within it, too.)
std::size_t max_index_bytes(std::size_t count, std::size_t atoms);

// REQUIRES out.size() == plan.bytes.
void write_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out);

// Fills `indices` and returns how many there are. WireError when they are more than fit, not below `atoms`, or
// written with other bytes than write_indices() would write with that code and shift.
std::size_t read_indices(ThreadPool& pool, std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices);

}  // namespace sotto
