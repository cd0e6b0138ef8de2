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

// What a rank needs to take steps again after its group has changed: its whole state at two steps, in memory. Two,
// because when a rank is lost, some of the others may have come to a step that is to be kept, and the rest have not. So
// no rank may be ahead of another by two of these steps: see GroupMembership::keeps().
class Rollback {
 public:
  // Where the states that are kept from now on belong: the number of a generation, a manifest without parts, whose step
  // does not matter, and this rank's number in the group. Forgets states from later steps than `step`.
  void begin(std::uint64_t generation, Manifest manifest, int rank, int ranks, std::uint64_t step);
  std::uint64_t begun() const { return begun_; }  // the step of the last begin()
  void forget();                                  // all states
  // Keeps the state with which `step` begins, unless it is kept already: a generation that commits no step changes
  // nothing for the next one. REQUIRES Algorithm::enter(step), and drain().
  void keep(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals totals);

  std::optional<std::uint64_t> last() const;  // the newest step that is kept
  bool has(std::uint64_t step) const { return find(step) != nullptr; }
  // The generation that came to this step first, and its manifest. REQUIRES has(step).
  std::uint64_t generation(std::uint64_t step) const { return find(step)->origin->generation; }
  Manifest manifest(std::uint64_t step) const;
  // Restores the state of that step; of the algorithm's only what it held back, by Elastic::take_over(). REQUIRES
  // has(step), and enter(step) of a new algorithm.
  void give(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals& totals);

  // Of any rank that was there: rank 0 may be another one in each generation.
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

// Gives newcomers the state of rank `donor`, on its own thread, so that others may train meanwhile. It is sent
// over the link of each rank once: the donor sends each chunk to the first newcomer, and each newcomer passes it on to
// the next one while it receives another. So it takes about as long as one rank needs to receive the state, however
// many newcomers there are. Other ranks keep their values.
class NewcomerState final {
 public:
  // Visits the same components on all ranks. Those of a newcomer may have other lengths before.
  using Visit = std::function<void(StateCopy&)>;

  // Collective. The donor's state is that of now, of which this keeps a copy. Newcomers pass it on in the order given.
  NewcomerState(std::unique_ptr<Communicator> communicator, int donor, const std::vector<int>& newcomers,
                const Visit& visit);
  ~NewcomerState();  // what is on its way may be lost
  NewcomerState(const NewcomerState&) = delete;
  NewcomerState& operator=(const NewcomerState&) = delete;

  // Whether this rank has received, and passed on, all that it should; waits for it, but not longer than that. Throws
  // what the thread threw.
  bool wait_for(std::chrono::milliseconds time);
  // What wait_for() waited for: its bytes, and the seconds that they took. REQUIRES that it is there.
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
  std::future<void> passing_;  // last: its destructor waits for what uses the others; not valid: nothing to do
};

class RunLog;
class Session;

// The ranks of a generation that brought no state, and how they come up to date with the others. Those that follow take
// part in exchanges meanwhile, and train once all are up to date.
class Newcomers {
 public:
  Newcomers(Session& session, RunLog& log) : session_(session), log_(log) {}

  bool is_one() const { return is_new_; }  // this rank
  void set(bool is_new) { is_new_ = is_new; }
  std::vector<int> ranks();  // all of them. Collective.
  // Whether newcomers may take part in exchanges from this step on, before they have the model.
  bool may_follow(std::uint64_t step);
  // They begin to get the state of rank `donor`. If they may not follow meanwhile, all wait for it. Collective.
  void give_state(int donor, const std::vector<int>& ranks, std::uint64_t step);
  // Waits until newcomers have the others' model, of the step that these have come to. Nobody runs out of time, however
  // long that takes. Collective.
  void bring_up_to_date(std::uint64_t done);
  // Whether this is a follower that can catch up, or that has no room for more means. Throws what went wrong with the
  // state, on a rank that sends it, too.
  bool wishes_to_join();

 private:
  void visit_shared(StateCopy& state);
  bool is_up_to_date(std::chrono::milliseconds time);

  Session& session_;
  RunLog& log_;
  bool is_new_ = true;                    // this rank brought no state
  bool has_state_ = false;                // of a newcomer: it has got the others'
  std::unique_ptr<NewcomerState> state_;  // on its way, or arrived in this generation; null: of no newcomer
};

}  // namespace sotto
