#pragma once

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sotto/core/error.h"

// Clang checks at compile time that members are used under their lock (`./dev locks`); for other compilers these macros
// are empty. Constructors and destructors are not checked.
#ifdef __clang__
#define SOTTO_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define SOTTO_THREAD_SAFETY(attribute)
#endif

// The member may be used only while this mutex is held.
#define SOTTO_GUARDED_BY(mutex) SOTTO_THREAD_SAFETY(guarded_by(mutex))
// The caller of the function must hold this mutex.
#define SOTTO_REQUIRES(mutex) SOTTO_THREAD_SAFETY(requires_capability(mutex))
// Clang does not check this function. A comment at the function says why.
#define SOTTO_UNCHECKED SOTTO_THREAD_SAFETY(no_thread_safety_analysis)

namespace sotto {

// Starts a thread that runs work(arguments...). Error, which says the purpose, when the system has no thread left. The
// caller must be able to unwind after that: it may not have begun anything that waits for the thread.
template <class... Work>
std::thread start_thread(std::string_view purpose, Work&&... work) {
  try {
    return std::thread(std::forward<Work>(work)...);
  } catch (const std::system_error& error) {
    throw Error("no thread could be started for " + std::string(purpose) + " (" + error.what() +
                "): raise the limit of processes (`ulimit -u`, or pids of the container), or start fewer ranks here");
  }
}

// Begins work on a new thread or, if the system has no thread left, does it at once. The future's get() rethrows the
// exception of the work, and its destructor waits for the work.
template <class Work>
std::future<void> begin_work(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    auto ended = std::async(std::launch::deferred, work);
    ended.wait();
    return ended;
  }
}

// Mutex, Lock and Condition are std::mutex, std::unique_lock and std::condition_variable with these annotations.
class SOTTO_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() SOTTO_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() SOTTO_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }

 private:
  friend class Lock;
  std::mutex mutex_;
};

class SOTTO_THREAD_SAFETY(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) SOTTO_THREAD_SAFETY(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~Lock() SOTTO_THREAD_SAFETY(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() SOTTO_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  void unlock() SOTTO_THREAD_SAFETY(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// `ready` is a lambda that is itself annotated: [this]() SOTTO_REQUIRES(mutex_) { return done_; }
class Condition {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  template <class Ready>
  void wait(Lock& lock, Ready ready) {
    changed_.wait(lock.lock_, ready);
  }
  // Returns false if ready() is still false at `until`, or after `most`.
  template <class Time, class Ready>
  bool wait_until(Lock& lock, const Time& until, Ready ready) {
    return changed_.wait_until(lock.lock_, until, ready);
  }
  template <class Duration, class Ready>
  bool wait_for(Lock& lock, const Duration& most, Ready ready) {
    return changed_.wait_for(lock.lock_, most, ready);
  }
  // May wake up spuriously.
  template <class Time>
  void wait_until(Lock& lock, const Time& until) {
    changed_.wait_until(lock.lock_, until);
  }

 private:
  std::condition_variable changed_;
};

}  // namespace sotto
