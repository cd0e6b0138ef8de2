#include "sotto/algorithm/bucket_thread.h"

#include <utility>

namespace sotto {

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
