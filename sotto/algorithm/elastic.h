#pragma once

#include <cstdint>
#include <span>

#include "sotto/algorithm/following.h"
#include "sotto/algorithm/worker.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {

// The interface of algorithms whose group may change, between two runs or while they train (docs/elastic.md).
class Elastic {
 public:
  explicit Elastic(bool meets_models, Following* following = nullptr)
      : meets_models_(meets_models), following_(following) {}
  virtual ~Elastic() = default;
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // A newcomer needs no parameters of others before sync_after_change(), which gives it the model. With local steps it
  // needs their common start, which visit_shared() has; before they have one, all have the parameters with which they
  // began.
  bool meets_models() const { return meets_models_; }
  Following* following() const { return following_; }  // null: a rank cannot take part before it has the model
  // How many steps a rank may have finished that another has not begun yet, at most.
  virtual std::uint64_t lead() { return 0; }
  // What is the same on all ranks, or is to be their mean if they become another group.
  virtual void visit_shared(StateVisitor& /*visitor*/) {}
  // Replaces a reading visit_state() if the group of ranks is another one now, after a reading visit_shared(). Takes
  // over what the ranks `each` held back: all ranks of the group that wrote a checkpoint, or this rank's own former
  // self. It becomes their mean. So the ranks together owe as much to the mean gradient as before, if each takes over
  // the mean of all; and if each keeps its own, nothing is lost but what lost ranks held back. Choices begin again, and
  // warm starts may. REQUIRES Algorithm::enter() and drain(), and that the table of algorithms allows it: other_ranks
  // or, for this rank's own former self, elastic.
  virtual void take_over(std::span<const FormerRank> each) = 0;
  // Called after take_over() if the group changed while it trained, on ranks that are new in it, too: these have taken
  // over nothing. Where each rank has its own model, all continue from the exact mean of the models of those that
  // are not new; in all other cases the parameters are the same already. Collective.
  virtual void sync_after_change(Worker& /*worker*/, bool /*is_new*/) {}
  // Takes the steps that a follower keeps, but begins none after `until`. Returns whether none is left. Then the model
  // is that of the others; with local steps, the one with which they began their round. REQUIRES following(),
  // Algorithm::drain(), and the worker and visit_shared() as they were before the first of these steps.
  virtual bool catch_up(Worker& worker, Clock::time_point until) {
    return following_->replay(worker.optimiser(), worker.parameters(), until);
  }

 private:
  bool meets_models_;
  Following* following_;
};

}  // namespace sotto
