#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/world.h"
#include "sotto/core/timer.h"

namespace sotto {

// Where the ranks of a job find each other: a TCPStore that the launcher, torchrun's agent or rank 0 serves. Also where
// they tell why they failed, so that an error can name the rank that was the cause and not only the neighbour that gave
// up.
//
// Meetings in one store are told apart by name: every rank makes them in the same order, and the n-th of all ranks is
// one meeting. All that it writes lies beneath that name, so that nobody reads what an earlier one left.
class Meeting {
 public:
  // Joins, and waits until all ranks have. CommError names those that never came; ConfigError when the port is in use.
  Meeting(const World& world, std::chrono::milliseconds deadline);
  // In a store that somebody else owns and keeps until all ranks have ended. Waits for nobody.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size);
  // Says goodbye. The rank that serves the store waits for the others' goodbye, two seconds at most: it must close
  // last.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Waits until all ranks have come. CommError names those that never do, or the one that reports a failure meanwhile.
  void wait_for_all(std::chrono::milliseconds deadline) { wait_until(Clock::now() + deadline, deadline); }

  // A part of the store, under names of its own.
  c10::intrusive_ptr<c10d::Store> section(const std::string& name) const;
  // "NAME.0", then "NAME.1", ...: the same on every rank when all ask in the same order.
  std::string next_name(const std::string& name);

  // Tells the others that this rank fails, and is itself the cause: nobody who waits for all waits any longer.
  void give_up(const std::string& error) { report(rank_, error); }
  // Tells the others that this rank failed because of `peer`, and asks who failed before: the peer may have given up
  // because of another one. Below 0: no peer is known, and whoever failed last is asked. Returns the error of the first
  // of that chain, or nothing when `peer` said none. Takes three seconds at most, also when the store is gone.
  std::string report(int peer, const std::string& error);

 private:
  void wait_until(Clock::time_point until, std::chrono::milliseconds deadline);

  int rank_;
  int size_;
  bool owned_;  // the store is ours, and ends with the job
  bool serves_;
  std::string place_;  // "host:port", or what the store belongs to
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace sotto
