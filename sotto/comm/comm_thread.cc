#include "sotto/comm/comm_thread.h"

#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/floats.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

class CommThread::Impl {
 public:
  Impl() : thread_(start_thread("communication", [this] { run(); })) {}

  ~Impl() {
    {
      const Lock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void post(std::function<void()> work, bool measured) {
    {
      const Lock lock(mutex_);
      posted_.push_back({std::move(work), measured ? std::optional(Clock::now()) : std::nullopt});
    }
    changed_.notify_all();
  }

  Waits take_waits() {
    const Lock lock(mutex_);
    return std::exchange(waits_, {});
  }

  void wait(const std::function<bool()>& enough) {
    Lock lock(mutex_);
    changed_.wait(lock,
                  [&]() SOTTO_REQUIRES(mutex_) { return (posted_.empty() && !running_) || (!error_ && enough()); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct Posted {
    std::function<void()> work;
    std::optional<Clock::time_point> since;  // of measured work
  };

  void run() {
    const PlainFloats floats;   // a new thread inherits the floating-point settings of its creator
    std::vector<Posted> batch;  // swapped with posted_, so that both keep their memory
    Lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !posted_.empty() || ending_; });
      if (posted_.empty()) return;
      batch.swap(posted_);
      running_ = true;
      for (auto& [work, since] : batch) {
        if (error_) break;
        if (since) {
          waits_.seconds += std::chrono::duration<double>(Clock::now() - *since).count();
          ++waits_.works;
        }
        lock.unlock();
        std::exception_ptr error;
        try {
          work();
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        error_ = error;
        changed_.notify_all();
      }
      batch.clear();
      running_ = false;
      changed_.notify_all();
    }
  }

  Mutex mutex_;
  Condition changed_;
  Waits waits_ SOTTO_GUARDED_BY(mutex_);
  std::vector<Posted> posted_ SOTTO_GUARDED_BY(mutex_);
  bool running_ SOTTO_GUARDED_BY(mutex_) = false;
  bool ending_ SOTTO_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ SOTTO_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

CommThread::CommThread() : impl_(std::make_unique<Impl>()) {}
CommThread::~CommThread() = default;
void CommThread::post(std::function<void()> work) { impl_->post(std::move(work), false); }
void CommThread::post_measured(std::function<void()> work) { impl_->post(std::move(work), true); }
CommThread::Waits CommThread::take_waits() { return impl_->take_waits(); }
void CommThread::wait() {
  wait([] { return false; });
}
void CommThread::wait(const std::function<bool()>& enough) { impl_->wait(enough); }

}  // namespace sotto
