#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/comm/deadline.h"
#include "sotto/comm/group/generations.h"
#include "sotto/comm/group/store.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"

namespace sotto {

// How the ranks of a job whose group may change (generations.h) learn of the next generation. Ranks that leave their
// group say so in the store of the launcher or the coordinator, and wait. The launcher or the coordinator sees which
// ranks are there, and announces the next generation.

// The last words of a rank that has ended by itself.
struct Farewell {
  bool failed = false;
  std::string words;  // empty: it has come to the end of the run
};

// How many ranks a job may have.
struct JobSize {
  std::size_t least = 1, most = 1;
};

// In the launcher or the coordinator.
class Roster {
 public:
  // `store` must outlive the roster.
  explicit Roster(StoreServer& store) : store_(store) {}

  // Passes on to `generations` what members have reported.
  void hear(Generations& generations);
  // Announces the present generation to those who wait for it.
  void announce(const Generations& generations);
  // Tells the present generation that its member `id` has ended. Ranks that train learn that the generation cannot
  // continue; ranks that are still meeting, or come later, need not wait for that member.
  void end(const Generations& generations, int id, const std::string& error);

  // Members that have not left their group, but whose connections were closed, as others say.
  std::vector<int> cut_off(const Generations& generations) const;
  std::optional<std::string> beat(int id) const;  // changes while the rank lives
  // How long a rank that lives may take to leave its group: `least`, or three times as long as its last step took.
  std::chrono::milliseconds patience(int id, std::chrono::milliseconds least) const;
  void ask_for_change(const Generations& generations);  // members of this generation should leave it together

  // Only for a coordinator, whose ranks come by themselves:
  void open(JobSize size, const std::string& job);  // ranks may join this job from now on, if ids are given out
  void give_out(int first_id);                      // ids from this one on
  // The id that the next rank gets. Nothing if the store says something else than an id from `least` to `most`.
  std::optional<int> next_id(int least, int most) const;
  std::optional<std::string> application(int id) const;  // secret.h
  void admit(int id);                                    // the rank has a place among those that wait
  void turn_away(int id, const std::string& why);        // the rank waits no more to be a member
  std::optional<Farewell> farewell(int id) const;
  // No generation follows; `error` is empty at the end of the run. Otherwise members save their state if `saves`.
  void close(const std::string& error, bool saves = false);

 private:
  StoreServer& store_;
};

// In a rank: says that this rank has left its group, why, and whether that group `moved`. A group moved if it began at
// a later step than the group before it. If groups of the same ranks do not move, again and again, the job ends.
// Returns this rank's place in the next generation as soon as that is announced. NotWanted if there will be one without
// this rank; another CommError if no generation follows, or nobody answers; Stopped if `stop` says so.
World next_generation(const World& world, const std::string& reason, bool moved, const Stop& stop);

// The others continue without this rank, or want no state of it.
class NotWanted final : public CommError {
 public:
  using CommError::CommError;
};

// In a rank that was started to be a member from generation `world.generation` on: waits for the first generation that
// has this rank as a member, and returns its place there. Nothing if the run comes to its end meanwhile.
std::optional<World> join_generation(const World& world, const Stop& stop);

// A job with a coordinator at `world.host` and `world.port`, for the starter of one of its ranks:
JobSize size_of_job(const World& world);
// Returns the id of a new rank, which has this secret. ConfigError if the other ranks have another secret; Stopped if
// `stop` says so.
int join_job(const World& world, const std::optional<Secret>& secret = {}, const Stop& stop = {});
// The rank has failed, unless it has said a farewell itself. If nobody is there to hear, nothing happens.
void end_in_job(const World& world, int id, const std::string& why);

// A farewell as the store holds it.
std::string text_of(const Farewell& farewell);

}  // namespace sotto
