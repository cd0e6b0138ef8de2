#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "app/train/folder/checkpoint.h"
#include "app/train/replica.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {

// What a rank needs to take steps again after its group has changed: its whole state at two steps, in memory. One step
// would not do: when a rank is lost, some of the others may have kept a new step already, and the rest not yet. No rank
// may be ahead of another by two of these steps: see GroupMembership::keeps().
class Rollback {
 public:
  // Runs at the start of a generation. The states that are kept from now on belong to it, to `manifest` (which has no
  // parts; its step does not matter), and to rank `rank` of `ranks`. Forgets states of steps after `step`.
  void begin(std::uint64_t generation, Manifest manifest, int rank, int ranks, std::uint64_t step);
  std::uint64_t begun() const { return begun_; }  // the step of the last begin()
  void forget();                                  // all states
  // Keeps the state with which `step` begins, unless there is one of this step: a generation that keeps no new step
  // changes nothing for the next one. REQUIRES Algorithm::enter(step), and drain().
  void keep(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals totals);

  std::optional<std::uint64_t> last() const;  // the newest step that is kept
  bool has(std::uint64_t step) const { return find(step) != nullptr; }
  // The generation that kept this step, and its manifest. REQUIRES has(step).
  std::uint64_t generation(std::uint64_t step) const { return find(step)->origin->generation; }
  Manifest manifest(std::uint64_t step) const;
  // Restores the state of that step. Of the algorithm's state, only the shared part and what this rank held back return
  // (Elastic::visit_shared() and take_over()). REQUIRES has(step), and enter(step) of a new algorithm.
  void give(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals& totals);

  // Time since the last checkpoint. Every rank counts it, since each generation may have another rank 0.
  Timer since_checkpoint;

 private:
  struct Origin {
    std::uint64_t generation = 0;
    Manifest manifest;
    int rank = 0, ranks = 1;
  };
  struct Kept {
    std::optional<std::uint64_t> step;
    std::shared_ptr<const Origin> origin;
    StateCopy state;
  };
  const Kept* find(std::uint64_t step) const;

  std::uint64_t begun_ = 0;
  std::shared_ptr<const Origin> origin_;
  std::array<Kept, 2> kept_;
};

// Gives newcomers the state of rank `donor`, on its own thread, so that others may train meanwhile. The link of each
// rank carries the state once: the donor sends each chunk to the first newcomer, and each newcomer passes a chunk on to
// the next one while it receives another. All newcomers together need about as long as one. Other ranks keep their
// values.
class NewcomerState final {
 public:
  // Visits the same components on all ranks. A newcomer's components may have other lengths before they arrive.
  using Visit = std::function<void(StateCopy&)>;

  // Collective. Copies the donor's present state. Newcomers pass it on in the order of `newcomers`.
  NewcomerState(std::unique_ptr<Communicator> communicator, int donor, const std::vector<int>& newcomers,
                const Visit& visit);
  ~NewcomerState();  // chunks on their way may be lost
  NewcomerState(const NewcomerState&) = delete;
  NewcomerState& operator=(const NewcomerState&) = delete;

  // Waits for at most `time` until this rank has received and passed on the whole state; returns whether it has. Throws
  // what the thread threw.
  bool wait_for(std::chrono::milliseconds time);
  // The bytes of the state, and the seconds that they took. REQUIRES that wait_for() has returned true.
  std::uint64_t bytes() const { return bytes_; }
  double seconds() const { return seconds_; }
  // Gives a newcomer what has arrived. REQUIRES wait_for().
  void give(const Visit& visit);

 private:
  class Chain;

  std::unique_ptr<Communicator> communicator_;
  StateCopy state_;
  std::atomic<bool> stop_ = false;
  std::uint64_t bytes_ = 0;
  double seconds_ = 0;
  std::future<void> passing_;  // not valid: no thread; the last member, so that its destructor waits first
};

class RunLog;
class Session;

// The ranks of a generation that brought no state, and how they come up to date with the others. Followers are
// newcomers that take part in exchanges meanwhile; they train once all newcomers are up to date.
class Newcomers {
 public:
  Newcomers(Session& session, RunLog& log) : session_(session), log_(log) {}

  bool is_one() const { return is_new_; }  // this rank
  void set(bool is_new) { is_new_ = is_new; }
  std::vector<int> ranks();  // all newcomers. Collective.
  // Whether newcomers may take part in exchanges from this step on, before they have the model.
  bool may_follow(std::uint64_t step);
  // Newcomers begin to get the state of rank `donor`. If they are no followers, all ranks wait until it has come.
  // Collective.
  void give_state(int donor, const std::vector<int>& ranks, std::uint64_t step);
  // Waits until newcomers have the model that the others have after `done` steps. No deadline passes, however long that
  // takes. Collective.
  void bring_up_to_date(std::uint64_t done);
  // Whether this rank is a follower that has the state, or that has no room to keep more means. Throws an error of
  // passing on the state, also on a rank that only sends it.
  bool wishes_to_join();

 private:
  void visit_shared(StateCopy& state);
  bool is_up_to_date(std::chrono::milliseconds time);

  Session& session_;
  RunLog& log_;
  bool is_new_ = true;                    // this rank brought no state
  bool has_state_ = false;                // whether it has the others' state
  std::unique_ptr<NewcomerState> state_;  // on its way, or arrived in this generation; null: there is no newcomer
};

}  // namespace sotto
