#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/layout.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// How the ascending numbers of the selected atoms are written (docs/wire): as gaps in variable-length integers, as one
// bit per atom, as gaps in Rice's code, or as runs of skipped atoms in 16 bits. The enumerators have the values of the
// header.
enum class IndexCode : std::uint8_t { delta, bitmap, rice, runs };

struct IndexPlan {
  IndexCode code = IndexCode::delta;
  std::size_t bytes = 0;
  unsigned shift = 0;  // for Rice's code: the bits of a remainder
};

// Plans the smallest code for these indices among `atoms` atoms. Ties go to delta, then to the bitmap, then to runs.
IndexPlan plan_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, std::size_t atoms);
// The most bytes that the smallest code takes for up to `count` indices. Only delta and bitmap count here: messages of
// versions that had no other codes must fit, too.
std::size_t max_index_bytes(std::size_t count, std::size_t atoms);

// REQUIRES out.size() == plan.bytes.
void write_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out);

// Fills `indices` and returns their number. WireError if there are more than fit, if one is not below `atoms`, or if
// write_indices() would have written other bytes with that code and shift.
std::size_t read_indices(ThreadPool& pool, std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices);

// The number of bits that the entries [some.begin, some.end) of `indices` take in `list`, which holds all `indices` in
// this code. These entries index `atoms` consecutive atoms.
std::uint64_t index_bits(std::span<const std::uint32_t> indices, Range some, std::size_t atoms, IndexCode code,
                         std::span<const std::byte> list);

}  // namespace sotto
