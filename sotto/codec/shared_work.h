#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/core/thread_pool.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

// Work on many elements whose result does not depend on how many threads share it. Nothing here allocates.

// Elements per task if a task waits for memory at each element.
inline std::size_t scattered_grain(const ThreadPool& pool) { return std::max<std::size_t>(pool.grain() / 16, 1); }

// The most tasks at a time; their results are kept on the stack.
inline constexpr std::size_t most_tasks = 256;

// Elements per task, so that there are at most `most_tasks` tasks.
inline std::size_t task_size(std::size_t count, std::size_t grain) {
  return std::max(grain, (count + most_tasks - 1) / most_tasks);
}

// Calls join(task(begin, end)) for stretches of `size` elements that cover 0 .. count: tasks run on all threads, and
// the caller joins their results in order.
template <class Result, class Task, class Join>
void join_in_order(ThreadPool& pool, std::size_t count, std::size_t size, Task task, Join join) {
  std::array<Result, most_tasks> results;
  for (std::size_t done = 0; done < count; done += most_tasks * size) {
    const std::size_t some = std::min(count - done, most_tasks * size);
    pool.run_stretches(some, size, [&](std::size_t begin, std::size_t end) {
      results[begin / size] = task(done + begin, done + end);
    });
    for (std::size_t begin = 0; begin < some; begin += size) join(done + begin, results[begin / size]);
  }
}

// The sum and the largest magnitude of elements 0 .. count. of(begin, end) computes both for one chunk; the results of
// the chunks are joined as kernels/reduce.h says.
template <class Of>
kernels::Spread spread_of_chunks(ThreadPool& pool, std::size_t count, Of of) {
  kernels::Spread total;
  join_in_order<kernels::Spread>(pool, count, kernels::sum_chunk, of, [&](std::size_t, const kernels::Spread& chunk) {
    total.sum += chunk.sum;
    total.max_abs_bits = std::max(total.max_abs_bits, chunk.max_abs_bits);
  });
  return total;
}

// kernels::max_abs_bits() on several threads.
inline std::uint32_t largest_magnitude(ThreadPool& pool, std::span<const float> values) {
  return spread_of_chunks(pool, values.size(),
                          [&](std::size_t begin, std::size_t end) {
                            return kernels::Spread{0, kernels::max_abs_bits(values.subspan(begin, end - begin))};
                          })
      .max_abs_bits;
}

// Lists the selected entries of 0 .. count in order. write(begin, end) writes the entries selected from a stretch to
// place `begin` and later, at most `end - begin` of them, and returns their number. move(from, to, n) then moves them
// down to their final place. Returns the total number of entries; they start at place 0.
template <class Write, class Move>
std::size_t list_in_order(ThreadPool& pool, std::size_t count, Write write, Move move) {
  if (pool.threads() == 1) return write(0, count);
  std::size_t total = 0;
  const std::size_t size = task_size(count, pool.grain());
  join_in_order<std::size_t>(pool, count, size, write, [&](std::size_t begin, std::size_t n) {
    if (begin != total) move(begin, total, n);
    total += n;
  });
  return total;
}

// Calls fill(begin, end, place) for stretches of 0 .. count; `place` is the sum of size(begin, end) of all earlier
// stretches.
template <class Size, class Fill>
void fill_in_order(ThreadPool& pool, std::size_t count, std::size_t grain, Size size, Fill fill) {
  if (pool.threads() == 1) return fill(std::size_t{0}, count, std::size_t{0});
  std::array<std::size_t, most_tasks> places;
  std::size_t total = 0;
  const std::size_t step = task_size(count, grain);
  join_in_order<std::size_t>(pool, count, step, size, [&](std::size_t begin, std::size_t n) {
    places[begin / step] = total;
    total += n;
  });
  pool.run_stretches(count, step, [&](std::size_t begin, std::size_t end) { fill(begin, end, places[begin / step]); });
}

}  // namespace sotto
