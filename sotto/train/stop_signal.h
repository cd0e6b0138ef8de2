#pragma once

#include <csignal>

namespace sotto {

// While it lives, SIGINT, SIGTERM and SIGUSR1 are only noted, so that the step can be finished; another one of the
// first two, two seconds later or more, ends the process. SIGUSR1 is how Slurm says that a job's time is nearly over:
// it asks for the same, but for another exit status, and whoever sends one of the others after it means that one.
// SIGHUP counts as SIGTERM, unless it is ignored (nohup).
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int caught();  // the signal's number, or 0

  // Of the signals that arrived on several ranks the most urgent one counts: a number that can be compared, and back.
  static int urgency(int signal) { return signal == SIGUSR1 ? 1 : signal; }
  static int of_urgency(int urgency) { return urgency == 1 ? SIGUSR1 : urgency; }
  // An error of a rank counts more than any of them: this and the rank is its urgency.
  static constexpr int failed_rank = 1000;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
  struct sigaction old_usr1_ {};
  struct sigaction old_hup_ {};
};

}  // namespace sotto
