#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/deadline.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/world.h"

namespace sotto::python {

// This process as a rank of a job with a coordinator (comm/group/membership.h).
class Member {
 public:
  // Joins the job whose coordinator is at "HOST:PORT", and says from now on that this rank lives. Throughout the job,
  // waits for a coordinator that is gone for at most `wait`.
  Member(const std::string& coordinator, std::chrono::seconds wait, const Stop& stop);

  // Waits for the first group that has this rank as a member. False if the run has come to its end without it.
  bool join(const Stop& stop);
  // Leaves the group because of `reason`, and waits for the next one; `moved` as in next_generation(). CommError if
  // this rank has no place in the next one.
  void next(const std::string& reason, bool moved, const Stop& stop);
  // Waits until all ranks of the group are here. Returns a store for this group alone. CommError if one of them is lost
  // before.
  c10::intrusive_ptr<c10d::Store> meet(std::chrono::milliseconds deadline, const Stop& stop);

  int id() const { return world_.id; }
  int rank() const { return world_.rank; }
  int ranks() const { return world_.size; }
  std::uint64_t generation() const { return world_.generation; }
  // The failure after which no group trains; empty: this group trains.
  const std::string& failure() const { return world_.failure; }
  // Whether others want to join, so that the members should leave this group together.
  bool wants_change() const { return heartbeat_ && heartbeat_->wants_change(); }
  // Tells the coordinator that this rank has ended, and why (empty: it has come to the end of the run). If it is never
  // called, the coordinator hears of an error.
  void leave(const std::string& words, bool failed);

 private:
  void enter(const World& world);

  World world_;
  std::optional<Heartbeat> heartbeat_;
  std::unique_ptr<Meeting> meeting_;
};

}  // namespace sotto::python
