#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "sotto/comm/bounded_store.h"
#include "sotto/comm/stop.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"

namespace sotto {

// Where the ranks of a job find each other: a TCPStore that the launcher, torchrun's agent or rank 0 serves. Also where
// they tell why they failed, so that an error can name the rank that was the cause and not only the neighbour that gave
// up.
//
// Meetings in one store are told apart by name: every rank makes them in the same order, and the n-th of all ranks is
// one meeting. A rank passes over meetings in which others waited for it in vain, so that a rank that missed one meets
// the others in their next. All that a meeting writes lies beneath its name, so that nobody reads what an earlier one
// left.
//
// A rank writes who it is, and counts itself; the last one writes the outcome, which all look for. So a rank sends a
// handful of requests, however many ranks there are, and one for each look.
class Meeting {
 public:
  // Joins, and waits until all ranks have, or `stop` says so (Stopped). CommError names those that never came, a rank
  // that was started twice or with another number of ranks, a port in use, and a place that does not answer;
  // ConfigError a host that is unknown.
  Meeting(const World& world, std::chrono::milliseconds deadline, const Stop& stop = {});
  // The next one in a store that somebody else owns and keeps until all ranks have ended. Waits for nobody.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size);
  // Says goodbye. The rank that serves the store waits for the others' goodbye, two seconds at most: it must close
  // last.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Waits until all ranks have come; once a meeting. CommError names those that never do, or the one that reports a
  // failure meanwhile.
  void wait_for_all(std::chrono::milliseconds deadline) { meet(Clock::now() + deadline, deadline, {}); }

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
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  void join_next();
  void open(const World& world, std::chrono::milliseconds deadline, const Stop& stop);
  // This meeting's part of the store, for requests that must end by then, or when `stop` says so.
  StorePtr until(Clock::time_point end, const Stop& stop = {}) const;
  void meet(Clock::time_point end, std::chrono::milliseconds deadline, const Stop& stop);
  void arrive(c10d::Store& store);
  void leave();
  [[noreturn]] void refuse(c10d::Store& store, const std::string& error);
  void tell(c10d::Store& store, int peer, const std::string& error);
  std::string missing(c10d::Store& store) const;

  int rank_;
  int size_;
  bool owned_;  // the store is ours, and ends with the job
  bool serves_ = false;
  std::string place_;  // "host:port", or what the store belongs to
  std::string prefix_;
  std::string missed_;  // what those said who waited in vain for this rank, in the meeting before this one
  c10::intrusive_ptr<BoundedStore> store_;
};

}  // namespace sotto
