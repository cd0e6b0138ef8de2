#pragma once

#include <exception>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

namespace sotto {

// Wraps works of Gloo so that they progress by themselves and may only be asked whether they have ended, as works of
// MPI and NCCL.
class PolledWork : public c10d::Work {
 public:
  explicit PolledWork(std::vector<c10::intrusive_ptr<c10d::Work>> inner)
      : waiter_([this, works = std::move(inner)] {
          std::exception_ptr error;
          try {
            for (const auto& work : works) work->wait();
          } catch (...) {
            error = std::current_exception();
          }
          finish(error);
        }) {}
  ~PolledWork() override { waiter_.join(); }
  bool wait(std::chrono::milliseconds) override {
    if (!isCompleted()) throw std::logic_error("waited for before it was complete");
    if (exception()) std::rethrow_exception(exception());
    return true;
  }

 private:
  std::thread waiter_;
};

}  // namespace sotto
