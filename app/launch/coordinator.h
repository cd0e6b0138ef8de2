#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "app/launch/console.h"
#include "sotto/comm/group/generations.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"
#include "sotto/core/open_file.h"
#include "sotto/core/timer.h"

namespace sotto {

struct CoordinatorSpec {
  MeetingPlace place;  // where the ranks find it
  std::size_t least = 1, most = 1;
  OnFailure on_failure = OnFailure::go_on;
  std::chrono::seconds patience{180};  // if a member stays in its group for so long after another left, it hangs
  // All ranks must have this secret, and nobody else reaches the store. Nothing: all must have the secret of the first
  // rank, or none if that rank has none.
  std::optional<Secret> secret{};
  // A file from which a later coordinator continues the job; removed when the job ends. A lock file in the same folder,
  // whose name ends in ".lock", keeps other coordinators from it. Empty: none.
  std::string state;
};

// Tells the ranks of a job who is in their group, wherever and however they were started. It knows them by their
// heartbeats (comm/group/heartbeat.h). Training does not need the coordinator: while it is gone, the group cannot
// change, but trains. If a rank has another secret than the others, or lacks theirs, it is told so and does not count
// (comm/secret.h).
class Coordinator {
 public:
  // CommError if the port is in use. FileError or ConfigError if the state file cannot be read or written, or another
  // coordinator uses it.
  Coordinator(CoordinatorSpec spec, Console& console);

  std::uint16_t port() const { return store_.port(); }
  // To be called every tenth of a second. Returns false when the job has ended, and all of its ranks have heard of
  // that, or are lost.
  bool look_after();
  bool has_ended() const { return closed_.has_value(); }
  const std::string& error() const { return error_; }  // why it ended; empty: it came to the end of the run
  const Generations& generations() const { return generations_; }
  double silent_seconds(int id) const;  // since that rank's last heartbeat

 private:
  struct Life {
    std::string beat;
    bool was_member = false;  // it was a member before this coordinator was restarted
    Clock::time_point heard = Clock::now();
  };

  void take_in();
  void give_out_ids();
  bool is_good(int id, const std::optional<Application>& application);
  bool may_doubt() const;
  void doubt(const std::string& what);
  void take_back();
  void listen();
  void end(int id, const Farewell& farewell);
  void lose(int id, const std::string& why);
  void change();
  void close();
  bool is_awaited();
  void try_to_save();
  void save() const;

  CoordinatorSpec spec_;
  Console& console_;
  Descriptor lock_;
  StoreServer store_;
  Roster roster_{store_};
  Generations generations_;
  std::map<int, Life> lives_;
  std::set<int> returning_;                    // ranks that waited when a former coordinator ended
  std::map<int, Clock::time_point> applying_;  // ids that were given out, and when; nobody may have taken some of them
  const std::string job_;                      // its name in the store
  std::optional<std::string> key_;             // the public one of the ranks' secret, empty if they have none
  int next_id_ = 0;                            // ids below have been given out
  Clock::time_point last_came_;
  std::uint64_t asked_ = 0;  // the generation that was asked to change
  bool is_unsaved_ = false;  // the state could not be written
  std::string error_;
  std::optional<Clock::time_point> closed_;  // since the job has ended
  bool says_who_is_awaited_ = false;
  Clock::time_point next_doubt_ = Clock::time_point::min();  // when the next line about nonsense in the store may come
  std::size_t doubts_ = 0;                                   // cases of nonsense that got no line
};

}  // namespace sotto
