#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/shared_work.h"
#include "sotto/core/error.h"
#include "sotto/core/thread_pool.h"

// The codes of index.h, and what they share. Rice's code, the longest, has a separate file: index_rice.cc.
namespace sotto {

void write_delta(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out);
std::size_t read_delta(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                       std::span<std::uint32_t> indices);

void write_bitmap(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out);
std::size_t read_bitmap(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                        std::span<std::uint32_t> indices);

void write_runs(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out);
std::size_t read_runs(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                      std::span<std::uint32_t> indices);

// One byte for `shift` and four for the number of indices; the remainders and then the quotients follow.
inline constexpr std::size_t rice_head = 1 + sizeof(std::uint32_t);
inline constexpr unsigned max_rice_shift = 31;
void write_rice(ThreadPool& pool, std::span<const std::uint32_t> indices, unsigned shift, std::span<std::byte> out);
std::size_t read_rice(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                      std::span<std::uint32_t> indices);

inline std::size_t bitmap_bytes(std::size_t atoms) { return (atoms + 7) / 8; }
std::size_t bits_in(std::span<const std::byte> bytes);

[[noreturn]] inline void throw_beyond(std::uint64_t index, std::size_t atoms) {
  throw WireError(fmt::format("index {} of {} atoms", index, atoms));
}
[[noreturn]] inline void throw_too_many(std::size_t most) {
  throw WireError(fmt::format("index list of more than the {} indices that this codec can select", most));
}

// Bytes or indices per task; they take longer than floats.
inline std::size_t index_grain(const ThreadPool& pool) { return std::max<std::size_t>(pool.grain() / 4, 1); }

// Calls use(gap) for the gap before each of the indices [begin, end).
template <class Use>
void for_gaps(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, Use use) {
  std::uint32_t next = begin == 0 ? 0 : indices[begin - 1] + 1;
  for (std::size_t j = begin; j < end; ++j) {
    use(indices[j] - next);
    next = indices[j] + 1;
  }
}

struct IndicesRead {
  std::size_t count = 0;
  std::uint64_t moved = 0;
};
// Reads, in parallel, indices whose number is known in advance: count(begin, end) is the number of indices in the
// stretch [begin, end) of 0 .. size. read(begin, end, place, its) fills `its` as if no index came before; `place` is
// the position of the first one. It returns the offset that it adds to all later indices, which is applied afterwards.
// Indices beyond 2^32 are truncated. If there are more indices than room, none is read.
template <class Count, class Read>
IndicesRead read_in_parts(ThreadPool& pool, std::size_t size, std::span<std::uint32_t> indices, Count count,
                          Read read) {
  std::array<IndicesRead, most_tasks + 1> parts;
  const std::size_t step = pool.threads() == 1 ? std::max<std::size_t>(size, 1)  // one part, to which nothing is added
                                               : task_size(size, index_grain(pool));
  const std::size_t tasks = (size + step - 1) / step;
  pool.run_stretches(size, step,
                     [&](std::size_t begin, std::size_t end) { parts[begin / step + 1].count = count(begin, end); });
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].count += parts[t].count;
  if (parts[tasks].count > indices.size()) return parts[tasks];
  const auto its = [&](std::size_t t) { return indices.subspan(parts[t].count, parts[t + 1].count - parts[t].count); };
  pool.run_stretches(size, step, [&](std::size_t begin, std::size_t end) {
    const std::size_t t = begin / step;
    parts[t + 1].moved = read(begin, end, parts[t].count, its(t));
  });
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].moved += parts[t].moved;
  pool.run(tasks, [&](std::size_t t) {
    const auto moved = static_cast<std::uint32_t>(parts[t].moved);
    if (moved == 0) return;
    for (std::uint32_t& index : its(t)) index += moved;
  });
  return parts[tasks];
}

}  // namespace sotto
