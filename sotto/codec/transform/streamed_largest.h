#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Numbers that are not kept, but computed whenever they are looked at; on several threads at once.
class Computed {
 public:
  // from(begin, out) writes the numbers begin, begin + 1, ...; it must outlive this.
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

// The largest of such numbers, by magnitude: zeros are never among them, and of equal ones the first are.
class StreamedLargest {
 public:
  // out[i] += scale * number i, for the `keep` largest of as many numbers as `out` has. They are computed once, and one
  // in 64 twice, where a sample tells well enough what the keep-th largest is; otherwise, and when more than one in 16
  // is kept, four times. REQUIRES out.size() < 2^32.
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
    return counts_.room((task + 1) << digit_bits).subspan(task << digit_bits);  // there is room: add()
  }
  // A magnitude, as bits, that a few more than `keep` numbers should reach.
  std::uint32_t guess(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks, std::size_t keep);
  // Lists what reaches a magnitude; false when that is less than `keep`, or more than there is room for.
  bool list(ThreadPool& pool, const Computed& numbers, std::span<Task> tasks, std::uint32_t least, std::size_t keep);
  void add_listed(ThreadPool& pool, std::span<const Task> tasks, std::size_t keep, float scale, std::span<float> out);
  void add_ranked(ThreadPool& pool, const Computed& numbers, std::span<const Task> tasks, std::size_t keep, float scale,
                  std::span<float> out);

  std::array<Task, most_tasks> tasks_;
  Scratch<std::uint32_t> counts_, places_, magnitudes_;
  Scratch<float> values_;
};

}  // namespace sotto
