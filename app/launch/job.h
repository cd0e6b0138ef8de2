#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <vector>

#include "app/launch/launcher.h"
#include "sotto/core/timer.h"

namespace sotto {

// Processes that are one job, from their start to their end. The caller may wait for news of several jobs at once.
// REQUIRES that a Signals object (signals.h) lives longer.
class Job {
 public:
  Job() = default;
  virtual ~Job() = default;  // kills those that still run
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  virtual bool running() const = 0;
  virtual void add_to(std::vector<pollfd>& polled) const = 0;      // their pipes, and their ends
  virtual std::optional<Clock::time_point> next_step() const = 0;  // when the job must be looked after in any case
  virtual void pass_on(int signal) = 0;                            // the second wish to stop kills them
  virtual void look_after() = 0;      // reads the pipes, notes who ended, ends a failed job
  virtual LaunchResult result() = 0;  // REQUIRES that it does not run
};

// How many of the last lines are kept of a job that shows none.
inline constexpr std::size_t held_lines = 20;

// How a process of a job ended.
enum class Ending {
  fine,     // with status 0, or because we ended it
  stopped,  // because somebody asked for it
  echo,     // in an error that may be only the echo of another one's
  failed,
};

// Which of the processes says how the job ended; nothing if all is fine. The endings are in the order of time. A
// process that lost its peer often ends before the peer whose fault it was.
std::optional<std::size_t> decisive(std::span<const Ending> endings);

}  // namespace sotto
