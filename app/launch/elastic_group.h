#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/launch/console.h"
#include "app/launch/launcher.h"
#include "sotto/comm/group/generations.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/world.h"
#include "sotto/core/timer.h"

namespace sotto {

// The ranks of a job as processes, wherever they run.
class RankStarter {
 public:
  virtual bool can_start(int id) = 0;                             // whether its machine is there
  virtual void start_rank(int id, std::uint64_t generation) = 0;  // a member from then on; Error if it is impossible
  virtual void give_up_rank(int id) = 0;                          // kills a rank that hangs

 protected:
  ~RankStarter() = default;
};

// The group of ranks of a job that survives the loss of some: LaunchSpec::least_ranks and the fields after it. The
// owner says which ranks run and which have ended; this class tells the others, and replaces lost ones.
class ElasticGroup {
 public:
  // All arguments are borrowed.
  ElasticGroup(const LaunchSpec& spec, StoreServer& store, RankStarter& starter, Console& console);

  void begin(std::size_t ranks);  // ids below `ranks` are the first generation; the owner starts them
  // The owner is about to start this rank while others train. It becomes a member as soon as all such ranks give signs
  // of life. A rank that gives none for long is given up.
  void expect(int id);
  bool is_expected(int id) const { return expected_.contains(id); }
  // Returns whether one more lost rank may be replaced, and if so, counts it as replaced.
  bool take_replacement();
  bool has_replacement() const { return replaced_ < spec_.replacements && !stops_; }

  void leave(int id);                             // the rank has come to the end of the run
  void withdraw(int id, const std::string& why);  // the rank has ended because it was asked to
  // The job is to end: nobody is replaced. Ranks that lost others write a checkpoint.
  void stop(const std::string& why);
  // These ranks were killed, hang, or their machine is lost. Returns false if the job cannot continue without them.
  bool lose(std::vector<int> ids, std::string why);
  // To be called every tenth of a second. Announces the next generation when all ranks that are left wait for it.
  void look_after();

  std::uint64_t generation() const { return generations_.number(); }
  std::vector<int> running() const { return {running_.begin(), running_.end()}; }
  bool over() const { return generations_.over(); }  // the last member has come to the end of the run
  // Why the job should end though no rank has failed; empty otherwise.
  const std::string& no_progress() const { return generations_.no_progress(); }

 private:
  struct Sign {  // a heartbeat, and when it was found
    std::optional<std::string> beat;
    Clock::time_point time{};
  };

  bool goes_on(const std::string& why);
  bool was_done(int id) const;
  bool is_silent(int id);
  void take_in();
  void give_up(int id);

  const LaunchSpec& spec_;
  RankStarter& starter_;
  Console& console_;
  Roster roster_;
  Generations generations_;
  std::set<int> running_;                      // started, and not ended
  std::map<int, Clock::time_point> expected_;  // ranks that are no members yet, and when they were started
  // The heartbeat that was there when a rank was started, from the rank before it with this id. A different heartbeat
  // shows that the new rank lives.
  std::map<int, std::optional<std::string>> inherited_;
  std::map<int, Sign> heard_;  // of members, while the group changes
  std::set<int> given_up_;
  std::uint64_t asked_ = 0;  // the generation that was asked to make room
  std::int64_t replaced_ = 0;
  bool stops_ = false;
};

}  // namespace sotto
