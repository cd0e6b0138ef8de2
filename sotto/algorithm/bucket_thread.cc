#include "sotto/algorithm/bucket_thread.h"

#include <utility>

#include "sotto/algorithm/compute.h"

namespace sotto {

BucketThread::BucketThread(std::size_t buckets, bool overlap, Work prepare, Work exchange)
    : prepare_(std::move(prepare)), exchange_(std::move(exchange)), ready_at_(buckets) {
  if (overlap) calls_.ready = [this](std::size_t /*bucket*/) { post_next(); };  // they come in order
}

double BucketThread::compute(Worker& worker, std::uint64_t step) {
  posted_ = 0;
  waited_ = 0;
  const double loss = compute_beside(thread_, worker, step, calls_);
  while (posted_ < ready_at_.size()) post_next();
  return loss;
}

void BucketThread::post_next() {
  const std::size_t bucket = posted_++;
  prepare_(bucket);
  ready_at_[bucket] = Clock::now();
  thread_.post([this, bucket] {
    waited_ += std::chrono::duration<double>(Clock::now() - ready_at_[bucket]).count();
    exchange_(bucket);
  });
}

}  // namespace sotto
