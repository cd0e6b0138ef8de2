#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace sotto {

// Threads that share the work of the thread that calls run(); the caller works, too. They sleep between runs. Only one
// thread may call run() at a time. A pool of one thread starts none and runs a plain loop.
class ThreadPool {
 public:
  // `grain`: the number of elements per task, for work whose result does not depend on how it is cut.
  static constexpr std::size_t default_grain = 65536;
  // `threads` includes the caller. REQUIRES threads >= 1, grain >= 1. ConfigError when they cannot be started.
  explicit ThreadPool(int threads, std::size_t grain = default_grain);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  std::size_t grain() const { return grain_; }

  // Calls task(i) for every i below `count`, on any thread, and returns when all calls have ended. Calls begin in
  // ascending order of i. If a call throws, calls that have not begun are skipped, and the exception of the smallest i
  // is rethrown. Allocates nothing. A run() inside a task is a plain loop on that thread.
  template <class Task>
  void run(std::size_t count, Task&& task) {
    using Object = std::remove_reference_t<Task>;
    run(count, {const_cast<void*>(static_cast<const void*>(&task)),
                [](void* object, std::size_t i) { (*static_cast<Object*>(object))(i); }});
  }
  // Cuts [0, count) into stretches of at most `size`, and calls task(begin, end) for each. REQUIRES size >= 1.
  template <class Task>
  void run_stretches(std::size_t count, std::size_t size, Task&& task) {
    if (size == 0) throw std::logic_error("ThreadPool::run_stretches: stretches of at least an element");
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
