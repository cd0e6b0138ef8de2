#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "sotto/algorithm/worker.h"
#include "sotto/comm/communicator.h"
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

// This rank in a group in which some ranks follow the others before they have their model. A follower takes part in all
// exchanges with zeros, computes nothing, leaves its parameters as they are, and keeps the steps that all ranks take
// alike. The others' weights make up for the zeros, which count in the mean.
class Following {
 public:
  // `outer`: all ranks take alike not the steps of the worker's optimiser, but those of one that outer() gets.
  Following(Communicator& communicator, bool outer)
      : communicator_(communicator), follower_(outer ? static_cast<Optimiser&>(none_) : kept_) {}

  // What this rank contributes to means is multiplied by `weight` from now on; with 0 it follows. If a follower comes
  // to an exchange long before the others, it asks `stops` there, on the thread that communicates, whether it wishes to
  // stop by now (StepInput::stop). Called before the first step. REQUIRES recipes for which a rank that sends zeros
  // does not change the sum (ignores_zeros()).
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

  // For algorithms, all of which change nothing in a group without followers:
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

}  // namespace sotto
