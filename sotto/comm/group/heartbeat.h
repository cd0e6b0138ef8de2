#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "sotto/comm/group/membership.h"
#include "sotto/comm/world.h"
#include "sotto/core/thread.h"

namespace sotto {

// Tells the coordinator or the launcher of a job twice a second that this rank lives, and asks whether the group of
// ranks is to change, or has changed. It has its own thread. While the coordinator is gone, it only tries to reach
// it.
class Heartbeat {
 public:
  explicit Heartbeat(const World& world);  // of a rank with an id; Error if no thread can start
  // Tells the coordinator or the launcher, if it answers, that this rank has ended: as farewell() said, or else in an
  // error.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // From now on this rank is a member of that generation.
  void enter(std::uint64_t generation);
  // Whether the members of this generation should leave it together, so that others can join.
  bool wants_change() const { return change_; }
  // Whether some member has left this generation, or is lost, so that the others cannot continue in it.
  bool is_over() const { return over_; }
  // The last step of this rank took so long. This rank may need as long again before it can leave its group.
  void took(std::chrono::milliseconds step) { step_ = step; }
  void farewell(Farewell farewell);  // this rank ends

 private:
  void run();

  const World world_;
  std::atomic<bool> change_ = false, over_ = false;
  std::atomic<bool> ends_ = false;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::chrono::milliseconds> step_{};
  Mutex mutex_;
  Condition ended_;
  Farewell farewell_ SOTTO_GUARDED_BY(mutex_) = {.failed = true, .words = "it ended in an error"};
  std::thread thread_;
};

}  // namespace sotto
