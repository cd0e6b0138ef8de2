#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/launch/elastic_group.h"
#include "app/launch/launcher.h"
#include "sotto/comm/group/store.h"
#include "sotto/core/timer.h"

namespace sotto {

// Processes that are one job, from their start to their end. The caller may wait for news of several jobs at once.
// REQUIRES that a Signals object (signals.h) lives longer.
class Job {
 public:
  virtual ~Job() = default;  // kills those that still run

  virtual bool running() const = 0;
  virtual void add_to(std::vector<pollfd>& polled) const = 0;      // their pipes, and their ends
  virtual std::optional<Clock::time_point> next_step() const = 0;  // when the job must be looked after in any case
  virtual void pass_on(int signal) = 0;                            // a second signal to stop kills the processes
  virtual void look_after() = 0;      // reads the pipes, notes who ended, ends a failed job
  virtual LaunchResult result() = 0;  // REQUIRES that it does not run

 protected:
  static constexpr std::chrono::milliseconds poll_interval{100};  // of the store, where ranks say that they lost others
  static constexpr std::size_t held_lines = 20;  // how many of the last lines are kept of a job that shows none

  Job(const LaunchSpec& spec, Console& console, OnProgress on_progress)
      : spec_(spec), console_(console), on_progress_(std::move(on_progress)) {}
  bool is_elastic() const { return spec_.least_ranks > 0; }
  void show(std::FILE* to, std::string line);  // or keeps it, for the result of a job that failed

  const LaunchSpec& spec_;
  Console& console_;
  OnProgress on_progress_;
  std::deque<std::string> held_;             // lines that are shown only if the job fails
  std::optional<Clock::time_point> failed_;  // since its first failure
  int stop_ = 0;                             // the signal that asked us to stop; 0: none
  std::string master_;                       // where the ranks meet; empty: nobody has said so yet
  std::optional<StoreServer> store_;
  std::optional<ElasticGroup> group_;  // of a job whose ranks may be lost
  bool dismissed_ = false;             // no more ranks are wanted
};

// How a process of a job ended.
enum class Ending {
  fine,     // with status 0, or because we ended it
  stopped,  // because somebody asked for it
  echo,     // in an error that may be only the echo of another one's
  failed,
};

// The index of the process that says how the job ended; nothing if all is fine. The endings are in the order of time.
// The first one need not be the cause: a process that lost its peer often ends before the peer whose fault it was.
std::optional<std::size_t> decisive(std::span<const Ending> endings);

}  // namespace sotto
