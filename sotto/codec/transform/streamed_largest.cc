#include "sotto/codec/transform/streamed_largest.h"

#include <algorithm>
#include <cmath>

#include "sotto/codec/select/candidates.h"
#include "sotto/core/random.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/select.h"

namespace sotto {
namespace {

constexpr std::size_t chunk = 4096;    // numbers that are computed together
constexpr std::size_t sampled = 256;   // consecutive numbers of a sample
constexpr std::size_t one_in = 64;     // this share of the numbers is sampled
constexpr std::size_t most_kept = 16;  // keeps at most one number in 16: otherwise a list would be long
constexpr unsigned magnitude_bits = 31;

// Room for a task's list: more than could be needed, plus a chunk.
constexpr std::size_t room_for(std::size_t keep) { return 3 * keep + 2 * chunk; }

// Cuts the numbers begin .. end into chunks, and calls visit(first, chunk) for each; the chunk's first number is number
// `first`.
template <class Visit>
void visit_chunks(const Computed& numbers, std::size_t begin, std::size_t end, Visit visit) {
  std::array<float, chunk> room;
  for (; begin < end; begin += chunk) {
    const auto some = std::span(room).first(std::min(chunk, end - begin));
    numbers.compute(begin, some);
    visit(begin, std::span<const float>(some));
  }
}

// Calls visit(i, number i) for i in begin .. end.
template <class Visit>
void visit_numbers(const Computed& numbers, std::size_t begin, std::size_t end, Visit visit) {
  visit_chunks(numbers, begin, end, [&](std::size_t first, std::span<const float> some) {
    for (std::size_t j = 0; j < some.size(); ++j) visit(first + j, some[j]);
  });
}

// The digit of the rank-th largest number of several tasks, and how many numbers have a larger digit, or this digit.
struct Digit {
  std::size_t value = 0, above = 0, equal = 0;
};
template <class CountsOf>
Digit find_digit(std::size_t tasks, std::size_t digits, std::size_t rank, CountsOf counts_of) {
  Digit found{.value = digits};
  while (found.value > 0 && found.above + found.equal < rank) {
    found.above += found.equal;
    found.equal = 0;
    --found.value;
    for (std::size_t t = 0; t < tasks; ++t) found.equal += counts_of(t)[found.value];
  }
  return found;
}

}  // namespace

std::span<StreamedLargest::Task> StreamedLargest::cut(const ThreadPool& pool, std::size_t count) {
  const std::size_t most = std::min(static_cast<std::size_t>(pool.threads()), most_tasks);
  const std::size_t tasks = std::clamp<std::size_t>(count / pool.grain(), 1, most);
  const std::size_t size = (count / tasks + chunk) / chunk * chunk;
  std::size_t used = 0;
  for (std::size_t begin = 0; begin < count; begin += size) tasks_[used++] = {begin, std::min(begin + size, count), 0};
  return std::span(tasks_).first(used);
}

void StreamedLargest::add(ThreadPool& pool, const Computed& numbers, std::size_t keep, float scale,
                          std::span<float> out) {
  if (keep == 0) return;
  const auto tasks = cut(pool, out.size());
  counts_.room(tasks.size() << digit_bits);  // before several threads request their parts
  if (keep <= out.size() / most_kept && list(pool, numbers, tasks, guess(pool, numbers, tasks, keep), keep)) {
    return add_listed(pool, tasks, keep, scale, out);
  }
  add_ranked(pool, numbers, tasks, keep, scale, out);
}

// The magnitude at a rank of the sample that is four standard deviations beyond the expected one.
std::uint32_t StreamedLargest::guess(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks,
                                     std::size_t keep) {
  constexpr unsigned shift = magnitude_bits - digit_bits;
  pool.run(tasks.size(), [&](std::size_t t) {
    const auto counts = this->counts(t);
    std::ranges::fill(counts, 0U);
    for (std::size_t begin = tasks[t].begin; begin < tasks[t].end; begin += one_in * sampled) {
      const std::size_t at = begin + ElementStream::mix(static_cast<std::uint32_t>(begin / sampled)) % one_in * sampled;
      visit_numbers(numbers, at, std::min(at + sampled, tasks[t].end),
                    [&](std::size_t, float number) { ++counts[kernels::element::magnitude_bits(number) >> shift]; });
    }
  });
  const double expected = static_cast<double>(keep) / one_in;
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 4);
  const Digit digit =
      find_digit(tasks.size(), std::size_t{1} << digit_bits, rank, [&](std::size_t t) { return counts(t); });
  return std::max(static_cast<std::uint32_t>(digit.value) << shift, 1U);
}

bool StreamedLargest::list(ThreadPool& pool, const Computed& numbers, std::span<Task> tasks, std::uint32_t least,
                           std::size_t keep) {
  const std::size_t room = room_for(keep);
  const auto places = places_.room(tasks.size() * room);
  const auto values = values_.room(tasks.size() * room);
  pool.run(tasks.size(), [&](std::size_t t) {
    const auto its_places = places.subspan(t * room, room);
    const auto its_values = values.subspan(t * room, room);
    std::size_t& listed = tasks[t].listed;
    visit_chunks(numbers, tasks[t].begin, tasks[t].end, [&](std::size_t first, std::span<const float> some) {
      if (listed + some.size() > room) {
        listed = room;
        return;
      }
      const std::size_t end = listed + kernels::collect_magnitudes(some, least, 0, &its_places[listed]);
      for (; listed < end; ++listed) {
        its_values[listed] = some[its_places[listed]];
        its_places[listed] += static_cast<std::uint32_t>(first);
      }
    });
  });
  std::size_t total = 0;
  bool fits = true;
  for (const Task& task : tasks) {
    total += task.listed;
    fits = fits && task.listed < room;  // otherwise a chunk did not fit
  }
  return fits && (total >= keep || least == 1);
}

void StreamedLargest::add_listed(ThreadPool& pool, std::span<const Task> tasks, std::size_t keep, float scale,
                                 std::span<float> out) {
  const std::size_t room = room_for(keep);
  const auto places = places_.room(tasks.size() * room);
  const auto values = values_.room(tasks.size() * room);
  std::size_t total = 0;
  for (const Task& task : tasks) total += task.listed;
  const auto magnitudes = magnitudes_.room(tasks.size() * room).first(total);
  std::size_t at = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (std::size_t j = 0; j < tasks[t].listed; ++j) {
      magnitudes[at++] = kernels::element::magnitude_bits(values[t * room + j]);
    }
  }
  const Ranked last = total > keep ? rank_largest(pool, magnitudes, keep) : Ranked{.value = 0, .equal = keep};
  std::size_t wanted = total > keep ? keep - last.larger : 0;  // how many numbers that equal the last are kept
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (std::size_t j = t * room; j < t * room + tasks[t].listed; ++j) {
      const std::uint32_t magnitude = kernels::element::magnitude_bits(values[j]);
      if (magnitude < last.value || (magnitude == last.value && wanted == 0)) continue;
      wanted -= magnitude == last.value ? 1 : 0;
      out[places[j]] += scale * values[j];
    }
  }
}

// Finds the last number's magnitude in three digits, from the highest on; then adds all numbers that reach it.
void StreamedLargest::add_ranked(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks,
                                 std::size_t keep, float scale, std::span<float> out) {
  constexpr std::array<unsigned, 4> cuts{magnitude_bits, 18, 9, 0};
  std::uint32_t last = 0;
  std::size_t larger = 0;
  for (std::size_t d = 1; d < cuts.size(); ++d) {
    const std::uint32_t digits = 1U << (cuts[d - 1] - cuts[d]);
    pool.run(tasks.size(), [&](std::size_t t) {
      const auto counts = this->counts(t);
      std::ranges::fill(counts, 0U);
      visit_numbers(numbers, tasks[t].begin, tasks[t].end, [&](std::size_t, float number) {
        const std::uint32_t magnitude = kernels::element::magnitude_bits(number);
        if (magnitude >> cuts[d - 1] == last) ++counts[magnitude >> cuts[d] & (digits - 1)];
      });
    });
    const Digit digit = find_digit(tasks.size(), digits, keep - larger, [&](std::size_t t) { return counts(t); });
    last = last << (cuts[d - 1] - cuts[d]) | static_cast<std::uint32_t>(digit.value);
    larger += digit.above;
  }
  // The tasks' counts of numbers that equal the last are known, so each task knows how many of them it must add.
  pool.run(tasks.size(), [&](std::size_t t) {
    std::size_t wanted = keep - larger;
    for (std::size_t before = 0; before < t; ++before) {
      wanted -= std::min<std::size_t>(wanted, counts(before)[last & ((1U << cuts[2]) - 1)]);
    }
    visit_numbers(numbers, tasks[t].begin, tasks[t].end, [&](std::size_t i, float number) {
      const std::uint32_t magnitude = kernels::element::magnitude_bits(number);
      if (magnitude == 0 || magnitude < last || (magnitude == last && wanted == 0)) return;
      wanted -= magnitude == last ? 1 : 0;
      out[i] += scale * number;
    });
  });
}

}  // namespace sotto
