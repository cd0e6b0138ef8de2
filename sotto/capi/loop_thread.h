#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "sotto/core/thread.h"

namespace sotto {

// A thread that works in steps. In the middle of each step it hands control back to the thread that started the step:
// one of the two runs at a time, and each sees all that the other did.
class LoopThread {
 public:
  // `work` is called on the thread, once a step, and calls hand_back() once. It throws nothing but Ended.
  explicit LoopThread(std::function<void()> work);
  ~LoopThread() { end(); }

  struct Ended {};

  // Ends the thread, and waits for it. In the middle of a step hand_back() then throws Ended.
  void end();
  // For the other thread. Each call returns when control is back.
  void start_step() { give(Turn::start); }
  void go_on() { give(Turn::middle); }
  // Whether the work has handed control back and waits for go_on(). Otherwise it has ended, or never started.
  bool in_the_middle() const {
    const Lock lock(mutex_);
    return handed_back_;
  }

  // Called within `work`: returns after go_on().
  void hand_back();

 private:
  enum class Turn : std::uint8_t { asker, start, middle, ending };
  void give(Turn turn);
  void serve();

  std::function<void()> work_;
  mutable Mutex mutex_;
  Condition changed_;
  Turn turn_ SOTTO_GUARDED_BY(mutex_) = Turn::asker;
  bool handed_back_ SOTTO_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last
};

}  // namespace sotto
