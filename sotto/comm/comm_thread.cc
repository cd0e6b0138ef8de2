#include "sotto/comm/comm_thread.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/plain_floats.h"
#include "sotto/core/thread.h"

namespace sotto {

class CommThread::Impl {
 public:
  Impl() : thread_(start_thread("communication", [this] { run(); })) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  void wait(const std::function<bool()>& enough) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (posted_.empty() && !running_) || (!error_ && enough()); });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void run() {
    const PlainFloats floats;                  // a thread begins with the settings of the one that made it
    std::vector<std::function<void()>> batch;  // swapped with posted_, so that both keep their memory
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !posted_.empty() || ending_; });
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

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> posted_;
  bool running_ = false;
  bool ending_ = false;
  std::exception_ptr error_;
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
