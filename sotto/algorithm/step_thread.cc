#include "sotto/algorithm/step_thread.h"

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

// The agreement travels while forward runs, so it costs a few bytes and no time. Followers wait for the others' first
// bucket.
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
  bool any = false;
  post([&] { any = on_any_rank(mine, communicator); });
  wait(now);
  return any;
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

BucketThread::BucketThread(std::size_t buckets, bool overlap, Work offer, Work exchange, Following* together)
    : offer_(std::move(offer)),
      exchange_(std::move(exchange)),
      together_(together),
      buckets_(buckets),
      thread_(together) {
  if (overlap) calls_.ready = [this](std::size_t /*bucket*/) { post_next(); };  // buckets become ready in order
  if (together == nullptr) return;
  calls_.is_void = [this](bool overflows) {
    return void_ = thread_.any_overflows(overflows, together_->communicator(), *now_);
  };
}

void BucketThread::run(Worker& worker, Step& now) {
  const Timer timer;
  now_ = &now;
  posted_ = 0;
  void_ = false;
  if (together_ != nullptr) thread_.agree(now.stop, seconds_);
  thread_.compute(worker, now, calls_, [this] {
    while (posted_ < buckets_) post_next();
  });
  thread_.wait(now);
  now.queue = thread_.take_waits().mean();
  if (together_ != nullptr) now.stops = thread_.agreed();
  seconds_ = timer.seconds();
}

void BucketThread::post_next() {
  const std::size_t bucket = posted_++;
  if (void_) return;
  offer_(bucket);
  thread_.post_measured([this, bucket] { exchange_(bucket); });
}

}  // namespace sotto
