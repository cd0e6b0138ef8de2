#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "sotto/algorithm/step_thread.h"

namespace sotto {

// A rank's communication thread that exchanges the buckets of each step one after the other, in the order of their
// index, which is the same on every rank.
class BucketThread {
 public:
  using Work = std::function<void(std::size_t bucket)>;
  // When a bucket is ready, offer(bucket) runs on the thread that computes, and then exchange(bucket) on this one,
  // while backward continues. Without `overlap` both run after backward. In a void step no bucket is offered or
  // exchanged. All ranks of `together` agree whether a step is void, and whether one of them was asked to stop; without
  // it each rank decides for itself whether a step is void.
  BucketThread(std::size_t buckets, bool overlap, Work offer, Work exchange, Following* together = nullptr);
  BucketThread(const BucketThread&) = delete;
  BucketThread& operator=(const BucketThread&) = delete;

  // Computes the gradient of this step, and exchanges all buckets. Throws what an exchange threw.
  void run(Worker& worker, Step& now);

 private:
  void post_next();

  Work offer_, exchange_;
  Following* together_;
  BucketCalls calls_;
  std::size_t buckets_;
  std::size_t posted_ = 0;
  bool void_ = false;
  double seconds_ = std::numeric_limits<double>::infinity();  // of the last run()
  Step* now_ = nullptr;
  StepThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace sotto
