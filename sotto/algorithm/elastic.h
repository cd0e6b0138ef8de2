#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "sotto/algorithm/worker.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"
#include "sotto/optim/kept_steps.h"

namespace sotto {

// A worker whose model is still on its way: its gradient is zero, and `optimiser` replaces its optimiser.
class Follower final : public Worker {
 public:
  explicit Follower(Optimiser& optimiser) : optimiser_(optimiser) {}
  Worker& of(Worker& worker) {
    worker_ = &worker;
    return *this;
  }
  std::span<float> parameters() override { return worker_->parameters(); }
  std::span<float> gradient() override { return worker_->gradient(); }
  std::span<const BucketPlan> buckets() const override { return worker_->buckets(); }
  Optimiser& optimiser() override { return optimiser_; }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override;

 private:
  Optimiser& optimiser_;
  Worker* worker_ = nullptr;
};

// This rank in a group in which some ranks follow: they take part before they have the model of the others. A follower
// takes part in all exchanges with zeros, and computes nothing. It leaves its parameters as they are, and keeps the
// steps that all ranks take alike. The zeros count in the mean; the weights of the other ranks make up for them.
class Following {
 public:
  // `outer`: the steps that all ranks take alike are steps of the optimiser that outer() gets, not of the worker's
  // optimiser.
  Following(Communicator& communicator, bool outer)
      : communicator_(communicator), follower_(outer ? static_cast<Optimiser&>(none_) : kept_) {}

  // From now on this rank's contributions to means are multiplied by `weight`; with 0 it follows. With local steps a
  // follower may come to an exchange long before the others. Therefore it calls `stops` there, on the thread that
  // communicates, to learn whether it was asked to stop by now (StepInput::stop). Called before the first step.
  // REQUIRES recipes for which a rank that sends zeros does not change the sum (ignores_zeros()).
  void set_weight(float weight, std::function<bool()> stops) {
    weight_ = weight;
    stops_ = std::move(stops);
  }
  bool some_follow() const { return weight_ != 1; }
  std::size_t kept_bytes() const { return kept_.bytes(); }  // for the steps of a follower
  // Lets `optimiser` take the kept steps, as KeptSteps::replay() does.
  bool replay(Optimiser& optimiser, std::span<float> parameters, Clock::time_point until) {
    return kept_.replay(optimiser, parameters, until);
  }

  // For algorithms. These functions change nothing in a group without followers:
  Worker& of(Worker& worker) { return weight_ == 0 ? follower_.of(worker) : worker; }
  Optimiser& outer(Optimiser& optimiser) { return weight_ == 0 ? kept_ : optimiser; }
  void weigh(std::span<float> values) const;  // what this rank contributes to a mean
  // Collective: `stop` becomes the largest of all ranks'.
  void agree(float& stop);
  // Collective: x becomes the mean of the models of all ranks that have one.
  void average_models(std::span<float> x);
  Communicator& communicator() { return communicator_; }

 private:
  class None final : public Optimiser {
   public:
    void apply(std::span<float> /*x*/, std::span<float> /*mean*/, std::size_t /*begin*/, double /*lr*/) override {}
    void visit_state(StateVisitor& /*visitor*/) override {}
  };

  Communicator& communicator_;
  float weight_ = 1;
  std::function<bool()> stops_;
  KeptSteps kept_;
  None none_;
  Follower follower_;
};

// The interface of algorithms whose group may change, between two runs or while they train (docs/elastic.md).
class Elastic {
 public:
  explicit Elastic(bool meets_models, Following* following = nullptr)
      : meets_models_(meets_models), following_(following) {}
  virtual ~Elastic() = default;
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // Whether a newcomer needs no parameters of others before sync_after_change(), which gives it the model. With local
  // steps it needs the common start, which visit_shared() visits. Before ranks have a common start, all have the
  // parameters with which they began.
  bool meets_models() const { return meets_models_; }
  Following* following() const { return following_; }  // null: a rank cannot take part before it has the model
  // The largest number of steps that one rank may have finished and another one not yet begun.
  virtual std::uint64_t lead() { return 0; }
  // Visits state that is the same on all ranks, or that must become the mean over ranks if the group changes.
  virtual void visit_shared(StateVisitor& /*visitor*/) {}
  // Called in place of a reading visit_state() if the group of ranks has changed, after a reading visit_shared().
  // `each`: all ranks of the group that wrote a checkpoint, or this rank's former self. This rank's residual becomes
  // the mean of theirs. If each rank takes over the mean of all, the ranks together owe the mean gradient as much as
  // before. If each rank keeps its own residual, only the residuals of lost ranks are lost. Choices start over, and
  // warm starts may. REQUIRES Algorithm::enter() and drain(), and that the table of algorithms allows it: other_ranks
  // or, for this rank's own former self, elastic.
  virtual void take_over(std::span<const FormerRank> each) = 0;
  // Called after take_over() if the group changed while it trained. New ranks call it, too, but have taken over
  // nothing. Where each rank has its own model, all ranks continue from the exact mean of the models of the ranks that
  // are not new. In all other cases the parameters are the same already. Collective.
  virtual void sync_after_change(Worker& /*worker*/, bool /*is_new*/) {}
  // Takes the steps that a follower keeps, but begins none after `until`. Returns whether none is left. If none is
  // left, this rank has the model of the others; with local steps, the model with which they began their round.
  // REQUIRES following(), Algorithm::drain(), and the worker and visit_shared() as they were before the first of these
  // steps.
  virtual bool catch_up(Worker& worker, Clock::time_point until) {
    return following_->replay(worker.optimiser(), worker.parameters(), until);
  }

 private:
  bool meets_models_;
  Following* following_;
};

}  // namespace sotto
