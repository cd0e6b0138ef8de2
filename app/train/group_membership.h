#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/train/group_state.h"
#include "app/train/run_log.h"
#include "app/train/session.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/core/error.h"

namespace sotto {

// All members of the group have agreed to change it, and each leaves it.
class GroupChange : public CommError {
 public:
  using CommError::CommError;
};

// The run ends because a rank was lost, and there is a checkpoint from which it can continue.
class EndedWithCheckpoint : public Error {
 public:
  using Error::Error;
};

// How the group of ranks changes: each generation begins with a state that ranks of the one before it kept in memory,
// and its ranks leave it together. Most functions do nothing if the group stays as it is.
class GroupMembership {
 public:
  // `rollback`: null if the group stays as it is. `heartbeat`: null if no rank can join.
  GroupMembership(Session& session, RunLog& log, Rollback* rollback, Heartbeat* heartbeat)
      : session_(session), log_(log), rollback_(rollback), heartbeat_(heartbeat), newcomers_(session, log) {}

  // Goes back to the last step that all ranks of the former group keep, which is then RunFolder::start_step(). Returns
  // false if no rank has begun a step yet. Collective.
  bool rejoin();
  bool continues() const { return continues_.has_value(); }  // rejoin() went back to a step
  // Runs before the first step of a generation, or of a start of a run whose group stays. Collective.
  void begin_generation(std::uint64_t step);
  // Runs before a step; `first` is the first one of this rank in this generation, `done` the steps of the run so far.
  void begin_step(std::uint64_t step, std::uint64_t first, std::uint64_t done);
  // Throws a CommError if a rank of the group was lost. Runs between the batches of an evaluation, too, since the next
  // exchange may be long after.
  void require_group(std::uint64_t done) const;
  bool wishes_change();
  void note_lap();  // runs after a step in which the ranks exchanged something
  Newcomers& newcomers() { return newcomers_; }
  // Collective. Whether the group changes after this step although no rank is lost.
  bool agreed_change(std::uint64_t done);
  // REQUIRES agreed_change(), or followers that are up to date. The next generation continues from here, or from the
  // last exchange.
  [[noreturn]] void leave(std::uint64_t done);

  // Keeps the state at a step that all ranks have reached, if ranks may be ahead of others. Collective, and another
  // collective call must follow: no rank may make a step until all have kept this one.
  void keep_together(std::uint64_t done);
  // Runs after an exchange has failed. All that was due up to step `finished` is done.
  void keep_what_is_left(std::uint64_t finished);
  void note_save();  // of a checkpoint
  [[noreturn]] void end_in_failure(const std::string& checkpoint) const;

 private:
  bool keeps(std::uint64_t step, std::uint64_t first);
  void keep(std::uint64_t step);
  [[noreturn]] void leave_as_planned(std::uint64_t step, std::uint64_t done);

  Session& session_;
  RunLog& log_;
  Rollback* rollback_;
  Heartbeat* heartbeat_;
  Newcomers newcomers_;
  std::optional<std::uint64_t> continues_;  // the generation whose state in memory this one continues
};

}  // namespace sotto
