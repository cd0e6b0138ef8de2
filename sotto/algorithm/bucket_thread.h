#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// A rank's communication thread. It exchanges the buckets of each step one after the other, in the order of their
// index, which is the same on every rank.
class BucketThread {
 public:
  using Work = std::function<void(std::size_t bucket)>;
  // When a bucket is ready, offer(bucket) runs on the thread that computes, and then exchange(bucket) on this one,
  // beside backward. Without `overlap` both run after backward. In a void step no bucket is offered or exchanged. All
  // ranks of `together` agree whether a step is void; without it each rank decides for itself.
  BucketThread(std::size_t buckets, bool overlap, Work offer, Work exchange, Communicator* together = nullptr);
  BucketThread(const BucketThread&) = delete;
  BucketThread& operator=(const BucketThread&) = delete;

  // Posts work that runs before the buckets of the next run().
  void post(std::function<void()> work) { thread_.post(std::move(work)); }
  // Computes the gradient of this step, and exchanges all buckets. Fills in loss, wait and queue of the report. Throws
  // what an exchange threw. If computing fails, calls `fails` first, so that posted work can end.
  void run(
      Worker& worker, std::uint64_t step, StepReport& report, const std::function<void()>& fails = [] {});

 private:
  void post_next();

  Work offer_, exchange_;
  BucketCalls calls_;
  std::size_t buckets_;
  std::size_t posted_ = 0;
  bool void_ = false;
  double agreeing_ = 0;  // seconds
  CommThread thread_;    // last: it is destroyed before what its work uses
};

}  // namespace sotto
