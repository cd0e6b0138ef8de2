#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// A rank's communication thread, on which the buckets of each step are exchanged one after the other, in the order of
// their index: the same on every rank.
class BucketThread {
 public:
  using Work = std::function<void(std::size_t bucket)>;
  // When a bucket is ready, prepare(bucket) on the thread that computes, and then exchange(bucket) on this one, beside
  // backward; without `overlap` both behind it.
  BucketThread(std::size_t buckets, bool overlap, Work prepare, Work exchange);
  BucketThread(const BucketThread&) = delete;
  BucketThread& operator=(const BucketThread&) = delete;

  // Before the buckets of the step that comes.
  void post(std::function<void()> work) { thread_.post(std::move(work)); }
  // The gradient of this step, whose loss it returns; buckets may be on their way behind it.
  double compute(Worker& worker, std::uint64_t step);
  // Until all are exchanged. Throws what an exchange threw.
  void wait() { thread_.wait(); }
  // Seconds for which a bucket of this step that was ready waited for those before it, on average. REQUIRES wait().
  double queue() const { return waited_ / static_cast<double>(std::max<std::size_t>(1, ready_at_.size())); }

 private:
  void post_next();

  Work prepare_, exchange_;
  BucketCalls calls_;
  std::vector<Clock::time_point> ready_at_;  // of each bucket, in this step
  std::size_t posted_ = 0;
  double waited_ = 0;  // all of them together
  CommThread thread_;  // last: it ends before what its work uses
};

}  // namespace sotto
