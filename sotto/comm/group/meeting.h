#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/deadline.h"
#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/group/store.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"

namespace sotto {

std::string this_process();  // "node1 (process 42)"

// The reason of a rank whose peer has closed its connections.
inline constexpr const char* peer_ended = "the connection was closed: the peer ended or was killed";

// The reason together with its cause, which the peer or another rank reported; `cause` is empty if nobody reported one.
// With a cause the text does not say that the peer ended or was killed: it closed its connections itself.
std::string reason_with(const std::string& reason, const std::string& cause);

// Where the ranks of a job find each other: a store that the launcher, torchrun's agent or rank 0 serves. The ranks
// also report there why they failed, so that an error can name the rank that was the cause and not only the neighbour
// that gave up.
//
// Meetings in one store have different names. Every rank makes its meetings in the same order, so that the n-th one is
// the same meeting for all. A rank skips meetings in which others waited for it in vain, and so meets the others in
// their next one. All keys of a meeting begin with its name, so that no meeting reads what an earlier one left.
//
// A rank that comes writes who it is, and adds 1 to a counter. The last rank to come writes the outcome, for which all
// ranks poll. A rank sends only a few requests, and one for each poll, however many ranks there are.
class Meeting {
 public:
  // Joins, and waits until all ranks have joined; Stopped if `stop` ends the wait before. `transport` is the name in
  // the table. CommError names what is wrong: missing ranks, a rank that was started twice, or with another number of
  // ranks or another transport, a port in use, or a place that does not answer. ConfigError names an unknown host.
  Meeting(const World& world, std::string_view transport, std::chrono::milliseconds deadline, const Stop& stop = {});
  // The next meeting in a store that somebody else owns and keeps until all ranks have ended. Does not wait. The
  // deadline applies to each request.
  Meeting(const StorePtr& store, std::chrono::milliseconds deadline, int rank, int size,
          std::string_view transport = "gloo");
  // Says goodbye. The rank that serves the store waits up to two seconds for the others' goodbye, since it must close
  // last.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Waits until all ranks have come; called once per meeting. CommError names missing ranks, or a rank that reports a
  // failure in the meantime.
  void wait_for_all(std::chrono::milliseconds deadline) { meet(Clock::now() + deadline, deadline, {}); }

  // A part of the store with its own key prefix. A wait for its keys ends when a rank of this meeting has failed or is
  // lost, since that rank may be the one that should write them.
  StorePtr section(const std::string& name) const;
  // "NAME.0", then "NAME.1", ...: the same on every rank if all ask in the same order.
  std::string next_name(const std::string& name);

  // For the process that serves the store: tells ranks that still meet beneath this prefix, or come later, that `rank`
  // has ended.
  static void end_for(StoreServer& store, const std::string& prefix, int rank, const std::string& error);
  // Also for that process: returns the ranks that have ended without a report. Others have reported that the
  // connections of such a rank were closed; a rank that gives up reports before it closes them.
  static std::vector<int> closed(StoreServer& store, const std::string& prefix, std::size_t size);

  // Tells the others that this rank fails and is itself the cause: ranks that wait for all stop waiting.
  void give_up(const std::string& error) { report(rank_, error); }
  // Tells the others that this rank failed because of `peer`, and follows the chain of causes, since the peer may have
  // failed because of another rank. `peer` below 0: it is unknown, and the chain starts with the rank that failed last.
  // Returns the error of the first rank in the chain, or nothing if `peer` reported none. Takes at most three seconds,
  // even if the store is gone.
  std::string report(int peer, const std::string& error);
  // The error that `rank` has reported, or that end_for() has reported for it; nothing if there is none.
  std::optional<std::string> failure_of(int rank, Clock::time_point end) const;

 private:
  void join_next();
  void open(const World& world, std::chrono::milliseconds deadline, const Stop& stop);
  // This meeting's part of the store, for requests that must end by `end`, or when `stop` says so.
  StorePtr until(Clock::time_point end, const Stop& stop = {}) const;
  void meet(Clock::time_point end, std::chrono::milliseconds deadline, const Stop& stop);
  void arrive(Store& store);
  bool has_met(const std::string& error);
  void leave();
  [[noreturn]] void refuse(Store& store, const std::string& error);
  void tell(Store& store, int peer, const std::string& error);
  std::string missing(Store& store) const;

  int rank_;
  int size_;
  std::string transport_;
  bool owned_;  // this rank opened the store, which ends with the job
  bool serves_ = false;
  std::string place_;  // "host:port", or the owner of the store
  std::string prefix_;
  std::string missed_;  // the reports of ranks that waited in vain for this rank, in the previous meeting
  std::shared_ptr<BoundedStore> store_;
};

}  // namespace sotto
