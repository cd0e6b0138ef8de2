#include "sotto/comm/comm_thread.h"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/mutex.h"
#include "sotto/core/plain_floats.h"
#include "sotto/core/thread.h"

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

  void post(std::function<void()> work) {
    {
      const Lock lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  void wait(const std::function<bool()>& enough) {
    Lock lock(mutex_);
    changed_.wait(lock,
                  [&]() SOTTO_REQUIRES(mutex_) { return (posted_.empty() && !running_) || (!error_ && enough()); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void run() {
    const PlainFloats floats;                  // a new thread inherits the floating-point settings of its creator
    std::vector<std::function<void()>> batch;  // swapped with posted_, so that both keep their memory
    Lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !posted_.empty() || ending_; });
      if (posted_.empty()) return;
      batch.swap(posted_);
      running_ = true;
      for (auto& work : batch) {
        if (error_) break;
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
  std::vector<std::function<void()>> posted_ SOTTO_GUARDED_BY(mutex_);
  bool running_ SOTTO_GUARDED_BY(mutex_) = false;
  bool ending_ SOTTO_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ SOTTO_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

CommThread::CommThread() : impl_(std::make_unique<Impl>()) {}
CommThread::~CommThread() = default;
void CommThread::post(std::function<void()> work) { impl_->post(std::move(work)); }
void CommThread::wait() {
  wait([] { return false; });
}
void CommThread::wait(const std::function<bool()>& enough) { impl_->wait(enough); }

}  // namespace sotto
