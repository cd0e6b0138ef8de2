#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "sotto/comm/generations.h"
#include "sotto/comm/membership.h"
#include "sotto/comm/world.h"
#include "sotto/core/descriptor.h"
#include "sotto/core/timer.h"
#include "sotto/launch/console.h"

namespace sotto {

struct CoordinatorSpec {
  MeetingPlace place;  // where the ranks find it
  std::size_t least = 1, most = 1;
  OnFailure on_failure = OnFailure::go_on;
  std::chrono::seconds patience{180};  // a member that does not leave its group for so long after another did hangs
  // A file from which a later coordinator of the same job goes on; removed when the job ends. A file beside it, whose
  // name ends in ".lock", keeps other coordinators from it. Empty: none.
  std::string state;
};

// Tells the ranks of a job, which anything may have started anywhere, who is in their group. It knows them by their
// heartbeats (comm/heartbeat.h). Training does not need it: while it is gone, the group only cannot change.
class Coordinator {
 public:
  // CommError if the port is in use, FileError or ConfigError if the state cannot be read or written, or another
  // coordinator uses it.
  Coordinator(CoordinatorSpec spec, Console& console);

  std::uint16_t port() const { return store_.port(); }
  // To be called every tenth of a second. Returns false when the job has ended.
  bool look_after();
  const std::string& error() const { return error_; }  // why it ended; empty: it came to the end of the run
  const Generations& generations() const { return generations_; }
  double silent_seconds(int id) const;  // since that rank's last heartbeat

 private:
  struct Life {
    std::string beat;
    bool was_member = false;  // it was a member before this coordinator was started anew
    Clock::time_point heard = Clock::now();
  };

  void take_in();
  void take_back();
  void listen();
  void end(int id, const Farewell& farewell);
  void lose(int id, const std::string& why);
  void change();
  void try_to_save();
  void save() const;

  CoordinatorSpec spec_;
  Console& console_;
  Descriptor lock_;
  StoreServer store_;
  Roster roster_{store_};
  Generations generations_;
  std::map<int, Life> lives_;
  std::set<int> returning_;  // waited when a former coordinator ended
  std::set<int> unheard_;    // ids that it may have given out before it ended, without having heard of it
  const Clock::time_point begun_ = Clock::now();
  int next_id_ = 0;
  Clock::time_point last_came_;
  std::uint64_t asked_ = 0;  // the generation that was asked to change
  bool is_unsaved_ = false;  // the state could not be written
  std::string error_;
};

}  // namespace sotto
