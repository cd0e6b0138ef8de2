#pragma once

#include <poll.h>

#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/comm/generations.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"
#include "sotto/launch/launcher.h"
#include "sotto/launch/spawn.h"

namespace sotto {

// In the environment of a rank: the descriptor at which it hands over the reason of its end, a
// Reason and a text.
inline constexpr const char* report_variable = "SOTTO_REPORT";

// The ranks of one job, from their start to their end. The caller may wait for news of several jobs at once. REQUIRES
// that a Signals object (launcher.cc) lives longer.
class Job {
 public:
  Job(const LaunchSpec& spec, Console& console, OnProgress on_progress);  // starts the ranks
  ~Job();                                                                 // kills those that still run
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool running() const;
  void add_to(std::vector<pollfd>& polled) const;      // the pipes of the ranks
  std::optional<Clock::time_point> next_step() const;  // when a failed job must be looked after again
  void pass_on(int signal);                            // to the ranks; the second wish to stop kills them
  void look_after();                                   // reads the pipes, notes who ended, ends a failed job
  LaunchResult result();                               // REQUIRES that it does not run

 private:
  struct Rank {
    Process process;
    bool lost = false;         // it was killed, and the others go on without it
    bool hung = false;         // it was killed because it did not answer
    std::string out, err;      // lines that are not complete yet
    std::string report;        // what it handed over as the reason of its end
    std::optional<int> ended;  // the status of waitpid
    bool by_us = false;        // ended because we wanted it to
  };

  void start(std::size_t rank, std::uint64_t generation);
  std::vector<std::string> environment(std::size_t rank, std::uint64_t generation) const;
  void read_all();
  void read_lines(Descriptor& from, std::string& pending, std::size_t rank, std::FILE* to);
  void show(std::size_t rank, std::FILE* to, std::string_view line);
  void reap();
  void escalate();
  // Of jobs whose ranks may be lost, in elastic_job.cc:
  bool can_lose(const Rank& rank) const;
  void lose(std::size_t rank);
  void look_after_generation();
  void kill_all(int number);
  void kill_and_wait();
  static bool gave(const Rank& rank, Reason reason);
  LaunchResult decide() const;
  bool is_stop(const Rank& rank) const;
  std::string explain(std::size_t rank) const;

  const LaunchSpec& spec_;
  Console& console_;
  OnProgress on_progress_;
  std::string master_;  // where the ranks meet
  std::optional<StoreServer> store_;
  std::vector<Rank> ranks_;
  std::deque<std::string> held_;    // lines that are shown only if the job fails
  std::vector<std::size_t> order_;  // in which ranks ended
  std::optional<Clock::time_point> failed_;
  int stop_ = 0;  // the signal that we were stopped by
  int killing_ = 0;

  Generations generations_;  // of jobs whose ranks may be lost; the id of a rank is its index in ranks_
  std::int64_t replaced_ = 0;
};

}  // namespace sotto
