#include "sotto/core/thread_pool.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/floats.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

thread_local bool within_task = false;

// Waits a little before a thread goes to sleep, because waking it takes longer than most pauses between runs. It yields
// meanwhile, since other ranks share the cores.
template <class Ready>
void linger(Ready ready) {
  const auto until = Clock::now() + std::chrono::microseconds(50);
  while (!ready() && Clock::now() < until) std::this_thread::yield();
}

}  // namespace

// The members that describe a run change under the mutex; threads claim tasks without the mutex. A thread that joins a
// run counts itself in `taking_part_` until it leaves. The caller waits until `taking_part_` is zero. It thus does not
// wait for threads that wake up too late to join.
class ThreadPool::Pool {
 public:
  explicit Pool(int others) {
    try {
      for (int i = 0; i < others; ++i) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error& error) {
      end();
      throw ConfigError(std::to_string(others + 1) + " threads: that many cannot be started (" + error.what() + ")");
    }
  }
  ~Pool() { end(); }

  // False in a forked child: its copy of the pool has no threads, and waiting for them would block for ever.
  bool has_threads() const { return ::getpid() == process_; }

  void run(std::size_t count, AnyTask task) {
    {
      const Lock lock(mutex_);
      task_ = task;
      count_ = count;
      next_ = 0;
    }
    offered_.notify_all();
    take_part(task, count);
    linger([this] { return taking_part_ == 0; });
    Lock lock(mutex_);
    left_.wait(lock, [this] { return taking_part_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  bool is_open() const { return next_ < count_; }

  void serve() {
    const PlainFloats floats;  // a new thread inherits the float settings of its creator
    Lock lock(mutex_);
    while (!ending_) {
      if (is_open()) {
        ++taking_part_;
        const AnyTask task = task_;
        const std::size_t count = count_;
        lock.unlock();
        take_part(task, count);
        lock.lock();
        if (--taking_part_ == 0) left_.notify_one();
        lock.unlock();
        linger([this] { return is_open() || ending_; });
        lock.lock();
        continue;
      }
      offered_.wait(lock, [this] { return is_open() || ending_; });
    }
  }

  void take_part(AnyTask task, std::size_t count) {
    within_task = true;
    for (std::size_t i = next_++; i < count; i = next_++) {
      try {
        task.call(task.object, i);
      } catch (...) {
        const Lock lock(mutex_);
        if (!error_ || i < failed_) {
          error_ = std::current_exception();
          failed_ = i;
        }
        next_ = count;  // skips the tasks that have not begun; all below i have begun
      }
    }
    within_task = false;
  }

  void end() {
    {
      const Lock lock(mutex_);
      ending_ = true;
    }
    offered_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Mutex mutex_;
  Condition offered_, left_;
  AnyTask task_ SOTTO_GUARDED_BY(mutex_){};
  std::atomic<std::size_t> count_ = 0;
  std::atomic<std::size_t> next_ = 0;  // the next task to claim
  std::atomic<int> taking_part_ = 0;   // threads in the current run, without the caller
  std::atomic<bool> ending_ = false;
  std::size_t failed_ SOTTO_GUARDED_BY(mutex_) = 0;  // the task that threw `error_`
  std::exception_ptr error_ SOTTO_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
  pid_t process_ = ::getpid();
};

ThreadPool::ThreadPool(int threads, std::size_t grain) : threads_(threads), grain_(grain) {
  if (threads < 1 || grain < 1)
    throw std::logic_error("ThreadPool: at least one thread, and tasks of at least an element");
  if (threads > 1) pool_ = std::make_unique<Pool>(threads - 1);
}

ThreadPool::~ThreadPool() {
  if (pool_ && !pool_->has_threads()) static_cast<void>(pool_.release());
}

void ThreadPool::run(std::size_t count, AnyTask task) {
  if (pool_ && count > 1 && !within_task && pool_->has_threads()) return pool_->run(count, task);
  for (std::size_t i = 0; i < count; ++i) task.call(task.object, i);
}

}  // namespace sotto
