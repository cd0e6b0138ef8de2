#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Numbers that are not stored but computed on each access, by several threads at once.
class Computed {
 public:
  // from(begin, out) writes the numbers begin, begin + 1, ...; `from` must outlive this object.
  template <class From>
  explicit Computed(const From& from)
      : from_(&from), call_([](const void* object, std::size_t begin, std::span<float> out) {
          (*static_cast<const From*>(object))(begin, out);
        }) {}
  void compute(std::size_t begin, std::span<float> out) const { call_(from_, begin, out); }

 private:
  const void* from_;
  void (*call_)(const void* object, std::size_t begin, std::span<float> out);
};

// Finds the largest of such numbers, by magnitude. Zeros never count, and ties go to the first.
class StreamedLargest {
 public:
  // out[i] += scale * number i, for the `keep` largest of out.size() numbers. Usually each number is computed once, and
  // one in 64 twice, for a sample that estimates the keep-th largest. If the estimate fails, or more than one number in
  // 16 is kept, each is computed four times. REQUIRES out.size() < 2^32.
  void add(ThreadPool& pool, const Computed& numbers, std::size_t keep, float scale, std::span<float> out);

 private:
  static constexpr std::size_t most_tasks = 16;
  static constexpr unsigned digit_bits = 13;
  struct Task {
    std::size_t begin = 0, end = 0;  // its numbers
    std::size_t listed = 0;
  };
  std::span<Task> cut(const ThreadPool& pool, std::size_t count);
  std::span<std::uint32_t> counts(std::size_t task) {
    return counts_.room((task + 1) << digit_bits).subspan(task << digit_bits);  // add() has made the room
  }
  // A magnitude, as bits, that slightly more than `keep` numbers should reach.
  std::uint32_t guess(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks, std::size_t keep);
  // Lists the numbers that reach `least`; returns false if they are fewer than `keep`, or do not fit.
  bool list(ThreadPool& pool, const Computed& numbers, std::span<Task> tasks, std::uint32_t least, std::size_t keep);
  void add_listed(ThreadPool& pool, std::span<const Task> tasks, std::size_t keep, float scale, std::span<float> out);
  void add_ranked(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks, std::size_t keep, float scale,
                  std::span<float> out);

  std::array<Task, most_tasks> tasks_;
  Scratch<std::uint32_t> counts_, places_, magnitudes_;
  Scratch<float> values_;
};

}  // namespace sotto
