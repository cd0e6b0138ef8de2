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
class Meeting {
 public:
  // Joins, and waits until all ranks have. CommError names those that never came; ConfigError when the port is in use.
  Meeting(const World& world, std::chrono::milliseconds deadline);
  // In a store that somebody else owns and keeps until all ranks have ended.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size);
  // Says goodbye. The rank that serves the store waits for the others' goodbye, two seconds at most: it must close
  // last.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // A part of the store, under names of its own.
  c10::intrusive_ptr<c10d::Store> section(const std::string& name) const;
  // "NAME.0", then "NAME.1", ...: the same on every rank when all ask in the same order.
  std::string next_name(const std::string& name);

  // Tells the others that this rank failed because of `peer`, and asks who failed before: the peer may have given up
  // because of another one. Returns the error of the first of that chain, or nothing when `peer` said none. Takes a
  // second at most, also when the store is gone.
  std::string report(int peer, const std::string& error);

 private:
  void wait_for_all(Clock::time_point until, std::chrono::milliseconds deadline) const;

  int rank_;
  int size_;
  bool owned_;  // the store is ours, and ends with the job
  bool serves_;
  std::string place_;  // "host:port"
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace sotto
