#pragma once

#include <condition_variable>
#include <mutex>

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
// The function is not checked. A comment there says why.
#define SOTTO_UNCHECKED SOTTO_THREAD_SAFETY(no_thread_safety_analysis)

namespace sotto {

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
  // False when ready() is still false at that time.
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
