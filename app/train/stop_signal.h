#pragma once

#include <array>
#include <csignal>

namespace sotto {

// While this object lives, SIGINT, SIGTERM and SIGUSR1 are only recorded, so that the step can be finished. A second
// SIGINT or SIGTERM, at least two seconds later, ends the process. Slurm sends SIGUSR1 when a job's time is nearly
// over: it also stops the run, but with another exit status, and a SIGINT or SIGTERM after it replaces it. SIGHUP
// counts as SIGTERM, unless it is ignored (nohup).
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int caught();  // the signal's number, or 0

  // Maps a signal to a number whose maximum over ranks is the most urgent signal; of_urgency() maps back.
  static int urgency(int signal) { return signal == SIGUSR1 ? 1 : signal; }
  static int of_urgency(int urgency) { return urgency == 1 ? SIGUSR1 : urgency; }
  // An error of a rank is more urgent than any signal: its urgency is failed_rank plus the rank.
  static constexpr int failed_rank = 1000;

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  std::array<struct sigaction, numbers.size()> before_{};
};

}  // namespace sotto
