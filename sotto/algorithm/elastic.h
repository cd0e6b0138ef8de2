#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>

#include "sotto/algorithm/worker.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {

struct ElasticTraits {
  // A newcomer needs no parameters of others before sync_after_change(), which gives it the model. With local steps it
  // needs their common start, which visit_shared() has; before they have one, all have the parameters with which they
  // began.
  bool meets_models = false;
  bool has_followers = false;  // set_weight() and catch_up() may be called
};

// The interface of algorithms whose group may change, between two runs or while they train (docs/elastic.md).
class Elastic {
 public:
  explicit Elastic(const ElasticTraits& traits) : elastic_traits_(traits) {}
  virtual ~Elastic() = default;
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  bool meets_models() const { return elastic_traits_.meets_models; }
  bool has_followers() const { return elastic_traits_.has_followers; }
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
  // over nothing. Where each rank has a model of its own, all continue from the exact mean of the models of those that
  // are not new; in all other cases the parameters are the same already. Collective.
  virtual void sync_after_change(Worker& /*worker*/, bool /*is_new*/) {}
  // What this rank contributes to means is multiplied by `weight` from now on. With 0 it follows the others before it
  // has their model: it takes part in their exchanges with zeros, computes nothing, leaves its parameters as they are,
  // and keeps the steps that all ranks take alike. The others' weights make up for the zeros, which count in the mean.
  // If a follower comes to an exchange long before the others, it asks `stops` there, on the thread that communicates,
  // whether it wishes to stop by now (StepInput::stop). Called before the first step. REQUIRES has_followers(), and
  // recipes for which a rank that sends zeros does not change the sum (ignores_zeros()).
  virtual void set_weight(float /*weight*/, const std::function<bool()>& /*stops*/) {
    throw std::logic_error("an algorithm has no followers");
  }
  virtual std::size_t kept_bytes() const { return 0; }  // for the steps of a follower
  // Takes the steps that it keeps, but begins none after `until`. Returns whether none is left. Then the model is that
  // of the others; with local steps, the one with which they began their round. REQUIRES Algorithm::drain(), and the
  // worker and visit_shared() as they were before the first of these steps.
  virtual bool catch_up(Worker& /*worker*/, Clock::time_point /*until*/) { return true; }

 private:
  ElasticTraits elastic_traits_;
};

}  // namespace sotto
