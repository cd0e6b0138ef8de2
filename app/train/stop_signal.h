#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <exception>

#include "sotto/comm/communicator.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

// While this object lives, SIGINT, SIGTERM and SIGUSR1 are only recorded, so that the step can be finished. A second
// SIGINT or SIGTERM, at least two seconds later, ends the process. Slurm sends SIGUSR1 when a job's time is nearly
// over: it also stops the run, but with another exit status. A SIGINT or SIGTERM that follows it replaces it. SIGHUP
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

// Why a rank wishes all ranks to stop after the same step, and how they agree once they have stopped. A reason is a
// signal, an error in work that is no step, or a checkpoint that is due by the clock.
class Interruption {
 public:
  // 0 minutes: no checkpoint is due by the clock. `since_checkpoint` counts from the last checkpoint, which an earlier
  // group may have written.
  Interruption(double checkpoint_minutes, int rank, Timer since_checkpoint = {})
      : minutes_(checkpoint_minutes), rank_(rank), since_checkpoint_(since_checkpoint) {}

  // Runs file work that is not part of the training step. If it fails, the run ends later, after a checkpoint of all
  // ranks.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const FileError&) {
      if (!error_) error_ = std::current_exception();
    }
  }
  bool failed() const { return error_ != nullptr; }

  // Whether this rank wishes all ranks to stop after the same step: to end or, if they can continue afterwards, for a
  // checkpoint.
  bool wished(bool can_go_on) const;
  void saved() { since_checkpoint_.lap(); }
  Timer since_checkpoint() const { return since_checkpoint_; }

  // Collective. The urgency (StopSignal::urgency()) of the error or signal that ends the run, on whichever rank it
  // occurred; 0: none.
  int agreed_urgency(Communicator& communicator) const;
  // Collective. Whether a checkpoint is due by the clock.
  bool agreed_late(Communicator& communicator) const;
  // Ends the run after an error of one rank: that rank throws the error itself, the others a CommError that names the
  // rank.
  [[noreturn]] void end_in_error(int failed_rank, std::uint64_t done) const;

 private:
  bool is_late() const { return minutes_ > 0 && since_checkpoint_.seconds() > 60 * minutes_; }

  double minutes_;
  int rank_;
  std::exception_ptr error_;
  Timer since_checkpoint_;
};

}  // namespace sotto
