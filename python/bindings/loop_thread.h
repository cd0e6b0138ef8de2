#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "sotto/core/mutex.h"

namespace sotto::python {

// A thread that does something step by step, and in the middle of each step gives the turn back to the thread that
// asked for it: one of the two runs at a time, and each sees all that the other did.
class LoopThread {
 public:
  // `work` is called on the thread, once a step, and calls hand_back() once. It throws nothing but Ended.
  explicit LoopThread(std::function<void()> work);
  ~LoopThread() { end(); }

  struct Ended {};

  // For good: in the middle of a step, hand_back() throws Ended. Waits for the thread.
  void end();
  // On the other thread. Each waits until the turn is back.
  void start_step() { give(Turn::start); }
  void go_on() { give(Turn::middle); }
  // Whether the work has handed back, and waits for go_on(); else it has ended, or was never started.
  bool in_the_middle() const {
    const Lock lock(mutex_);
    return handed_back_;
  }

  // Within `work`: until go_on().
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

}  // namespace sotto::python
