#pragma once

#include <cstdint>
#include <exception>

#include "sotto/comm/communicator.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

// Why a rank would like all ranks to stop after the same step, and what they agree on when they have: a signal, an
// error of what is done beside the steps, or a checkpoint that is due by the clock.
class Interruption {
 public:
  // Rank 0's clock alone counts; 0 minutes: no checkpoint is due by it.
  Interruption(double checkpoint_minutes, int rank) : minutes_(rank == 0 ? checkpoint_minutes : 0), rank_(rank) {}

  // What a step of training does beside it, with files, fails later: after a checkpoint of all ranks.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const FileError&) {
      if (!error_) error_ = std::current_exception();
    }
  }
  bool failed() const { return error_ != nullptr; }

  // Whether this rank would like all to stop after the same step: to end, or, where they can go on, for a checkpoint.
  bool wished(bool can_go_on) const;
  void saved() { since_checkpoint_.lap(); }

  // Collective. What ends the run, on whichever rank it happened: an error, a signal, or 0 (StopSignal::urgency).
  int agreed_urgency(Communicator& communicator) const;
  // Collective. Whether a checkpoint is due by the clock.
  bool agreed_late(Communicator& communicator) const;
  // After the error of a rank: its own on that rank, and a CommError that names it on the others.
  [[noreturn]] void end_in_error(int failed_rank, std::uint64_t done) const;

 private:
  bool is_late() const { return minutes_ > 0 && since_checkpoint_.seconds() > 60 * minutes_; }

  double minutes_;
  int rank_;
  std::exception_ptr error_;
  Timer since_checkpoint_;
};

}  // namespace sotto
