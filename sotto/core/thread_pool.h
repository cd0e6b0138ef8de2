#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace sotto {

// Threads that share out the work of whoever calls run(), who is one of them. They sleep between runs. Serves one
// thread at a time; with one thread it is a plain loop, and none is started.
class ThreadPool {
 public:
  // `grain` is how many elements make a task, where the result does not depend on how they are cut.
  static constexpr std::size_t default_grain = 65536;
  // REQUIRES threads >= 1, grain >= 1. ConfigError when so many threads cannot be started.
  explicit ThreadPool(int threads, std::size_t grain = default_grain);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  std::size_t grain() const { return grain_; }

  // task(i) for every i below `count`, begun in ascending order, on any thread; returns when all have ended. Of what
  // they throw, the exception of the smallest i is thrown, and tasks that have not begun are left out. Allocates
  // nothing. A run within a task is a plain loop on its thread.
  template <class Task>
  void run(std::size_t count, Task&& task) {
    using Object = std::remove_reference_t<Task>;
    run(count, {const_cast<void*>(static_cast<const void*>(&task)),
                [](void* object, std::size_t i) { (*static_cast<Object*>(object))(i); }});
  }
  // task(begin, end) for stretches of at most `size` that make up 0 .. count.
  template <class Task>
  void run_stretches(std::size_t count, std::size_t size, Task&& task) {
    run((count + size - 1) / size, [&](std::size_t i) {
      const std::size_t begin = i * size;
      task(begin, count - begin < size ? count : begin + size);
    });
  }

 private:
  class Pool;
  struct AnyTask {
    void* object;
    void (*call)(void* object, std::size_t i);
  };
  void run(std::size_t count, AnyTask task);

  int threads_;
  std::size_t grain_;
  std::unique_ptr<Pool> pool_;  // null with one thread
};

}  // namespace sotto
