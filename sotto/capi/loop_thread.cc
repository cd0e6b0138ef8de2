#include "sotto/capi/loop_thread.h"

namespace sotto {

LoopThread::LoopThread(std::function<void()> work)
    : work_(std::move(work)), thread_(start_thread("an algorithm", [this] { serve(); })) {}

void LoopThread::end() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(mutex_);
    turn_ = Turn::ending;
  }
  changed_.notify_all();
  thread_.join();
}

void LoopThread::give(Turn turn) {
  Lock lock(mutex_);
  turn_ = turn;
  changed_.notify_all();
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::asker; });
}

void LoopThread::hand_back() {
  Lock lock(mutex_);
  handed_back_ = true;
  turn_ = Turn::asker;
  changed_.notify_all();
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::middle || turn_ == Turn::ending; });
  handed_back_ = false;
  if (turn_ == Turn::ending) throw Ended{};
}

void LoopThread::serve() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::start || turn_ == Turn::ending; });
    if (turn_ == Turn::ending) return;
    lock.unlock();
    try {
      work_();
    } catch (const Ended&) {
      return;
    }
    lock.lock();
    if (turn_ != Turn::ending) turn_ = Turn::asker;
    changed_.notify_all();
  }
}

}  // namespace sotto
