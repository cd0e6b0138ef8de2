#include "sotto/algorithm/step_thread.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace sotto {

void StepThread::post(std::function<void()> work) {
  come();
  thread_.post(std::move(work));
}

void StepThread::post_measured(std::function<void()> work) {
  come();
  thread_.post_measured(std::move(work));
}

void StepThread::wait(Step& now, const std::function<bool()>& enough) {
  const Timer timer;
  come();
  thread_.wait(enough);
  now.wait += timer.seconds();
}

void StepThread::compute(Worker& worker, Step& now, const BucketCalls& calls, const std::function<void()>& rest) {
  if (group_ != nullptr) call_roll();
  try {
    now.loss = worker.compute_gradient(now.step, calls);
    rest();
  } catch (...) {
    move_to(Place::gone);
    try {
      thread_.wait();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
    throw;
  }
}

void StepThread::call_roll() {
  if (!group_->some_follow()) return;
  thread_.wait([] { return true; });
  if (std::exchange(called_, true)) return;
  move_to(Place::computing);
  thread_.post([this] { run_roll_call(); });
}

// That travels while forward runs, so it costs a few bytes and no time. Followers wait for the others' first bucket.
void StepThread::agree(bool stop, double seconds) {
  notes_ = {stop ? 1.0F : 0.0F, static_cast<float>(seconds)};
  called_ = true;
  move_to(Place::computing);
  thread_.post([this] {
    if (!group_->some_follow()) return group_->agree(notes_[0]);
    Communicator& communicator = group_->communicator();
    communicator.all_reduce(notes_, ReduceOp::max);
    const std::chrono::duration<float> deadline = communicator.deadlines().least();
    if (notes_[1] > deadline.count() / 8) run_roll_call();
  });
}

bool StepThread::any_overflows(bool mine, Communicator& communicator, Step& now) {
  float any = mine ? 1.0F : 0.0F;
  post([&] { communicator.all_reduce(std::span(&any, 1), ReduceOp::max); });
  wait(now);
  return any > 0;
}

void StepThread::run_roll_call() {
  Communicator& communicator = group_->communicator();
  for (float waits = 1; waits > 0;) {
    {
      Lock lock(mutex_);
      moved_.wait_for(lock, communicator.deadlines().least() / 4,
                      [this]() SOTTO_REQUIRES(mutex_) { return place_ != Place::computing; });
      if (place_ == Place::gone) return;
      waits = place_ == Place::computing ? 1 : 0;
    }
    communicator.all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
}

void StepThread::come() {
  if (std::exchange(called_, false)) move_to(Place::here);
}

void StepThread::move_to(Place place) {
  {
    const Lock lock(mutex_);
    place_ = place;
  }
  moved_.notify_all();
}

}  // namespace sotto
