#include "sotto/algorithm/bucket_thread.h"

#include <utility>

#include "sotto/algorithm/compute.h"

namespace sotto {

BucketThread::BucketThread(std::size_t buckets, bool overlap, Work offer, Work exchange, Communicator* together)
    : offer_(std::move(offer)), exchange_(std::move(exchange)), buckets_(buckets) {
  if (overlap) calls_.ready = [this](std::size_t /*bucket*/) { post_next(); };  // buckets become ready in order
  if (together == nullptr) return;
  calls_.is_void = [this, together](bool overflows) {
    const Timer timer;
    void_ = any_overflows(overflows, thread_, *together);
    agreeing_ = timer.seconds();
    return void_;
  };
}

void BucketThread::run(Worker& worker, std::uint64_t step, StepReport& report, const std::function<void()>& fails) {
  posted_ = 0;
  void_ = false;
  agreeing_ = 0;
  report.loss = compute_beside(thread_, worker, step, calls_, fails);
  while (posted_ < buckets_) post_next();
  const Timer waiting;
  thread_.wait();
  report.wait = agreeing_ + waiting.seconds();
  report.queue = thread_.take_waits().mean();
}

void BucketThread::post_next() {
  const std::size_t bucket = posted_++;
  if (void_) return;
  offer_(bucket);
  thread_.post_measured([this, bucket] { exchange_(bucket); });
}

}  // namespace sotto
