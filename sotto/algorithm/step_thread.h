#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/thread.h"

namespace sotto {

// A rank's communication thread in the steps of an algorithm: runs posted work in order while the rank computes.
//
// A follower, which computes nothing, waits for the others at their next exchange, perhaps longer than the deadline.
// Therefore all ranks of a group with followers call a roll: each quarter of the deadline they tell each other that
// they live. This ends when every rank has come to the exchange, by its first post() or wait() since.
class StepThread {
 public:
  explicit StepThread(Following* group = nullptr) : group_(group) {}
  ~StepThread() { move_to(Place::gone); }
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  void post(std::function<void()> work);  // as CommThread::post()
  void post_measured(std::function<void()> work);
  CommThread::Waits take_waits() { return thread_.take_waits(); }  // of measured work
  // Waits for all posted work, or until enough() (CommThread::wait()); the time counts as waiting of this step.
  void wait(
      Step& now, const std::function<bool()>& enough = [] { return false; });
  // Computes the gradient of this step, and then does the rest. In a group with followers, first calls the roll, unless
  // the last roll call is not over; throws if that call found a rank gone. If computing or the rest fails, waits for
  // the posted work, and throws the error of computing or the rest, not an error of the work.
  void compute(
      Worker& worker, Step& now, const BucketCalls& calls = {}, const std::function<void()>& rest = [] {});
  // In any group: lets all ranks agree, before the work that is posted next, whether one of them was asked to stop.
  // `seconds`: how long this rank's last step took. In a group with followers, calls the roll if some rank's last step
  // took long. agreed() is known after wait().
  void agree(bool stop, double seconds);
  bool agreed() const { return notes_[0] > 0; }
  // Whether the gradient of any rank overflows. First waits for the posted work. Collective.
  bool any_overflows(bool mine, Communicator& communicator, Step& now);

 private:
  enum class Place : std::uint8_t { computing, here, gone };
  void move_to(Place place);
  void call_roll();
  void come();
  void run_roll_call();

  Following* group_;
  bool called_ = false;           // a roll call is on its way, to which this rank has not come
  std::array<float, 2> notes_{};  // a wish to stop, and seconds
  Mutex mutex_;
  Condition moved_;
  Place place_ SOTTO_GUARDED_BY(mutex_) = Place::here;
  CommThread thread_;  // last: it is destroyed before what its work uses
};

// A rank's communication thread that exchanges the buckets of each step one after the other, in the order of their
// index, which is the same on every rank.
class BucketThread {
 public:
  using Work = std::function<void(std::size_t bucket)>;
  // When a bucket is ready, offer(bucket) runs on the thread that computes, and then exchange(bucket) on this one,
  // while backward continues. Without `overlap` both run after backward. In a void step no bucket is offered or
  // exchanged. All ranks of `together` agree whether a step is void, and whether one of them was asked to stop. Without
  // `together` each rank decides for itself whether a step is void.
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
