#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/state_values.h"
#include "sotto/capi/terms.h"
#include "sotto/core/floats.h"
#include "sotto/core/layout.h"
#include "sotto/core/thread.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// The parameters of a user's model, wherever they are, as a flat vector of floats.
class FlatModel {
 public:
  FlatModel() = default;
  virtual ~FlatModel() = default;
  FlatModel(const FlatModel&) = delete;
  FlatModel& operator=(const FlatModel&) = delete;

  virtual const Layout& layout() const = 0;
  // Copy the parameters to, and from, a vector of this layout. ConfigError if the model is another one than before.
  virtual void read(std::span<float> into) const = 0;
  virtual void write(std::span<const float> from) const = 0;
};

struct StepperOptions {
  AlgorithmSpec algorithm;
  AlgorithmOptions own;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  Terms required_same;  // further values that must be the same on all ranks, but do not belong to the state
};

// Options as users write them; empty texts are left out. `peers_per_step` is such as "0:1,1000:2"; 0 and 1000 are
// steps.
struct StepperTexts {
  std::string algorithm, codec = "none", aggregator = "auto", topology{}, mixing{}, peers_per_step{};
  int node_size = 1;
};
// ConfigError for texts that are none, or do not fit together.
StepperOptions read_stepper_options(const StepperTexts& texts, int ranks);

// A vector that is no parameter, such as a running mean. Texts of its shape and type tell ranks apart.
struct NamedDoubles {
  std::string name, shape, type;
  std::span<double> values;
};

// Presents the step of a user's optimiser as an Optimiser. The algorithm shows its parameters to the user's loop, and
// `mean` of apply() holds them after the loop's step. If the algorithm's vector may change during the loop, `shown`
// holds the parameters that the loop began with, and the vector moves as far as the loop moved from there. If `shown`
// is null, the vector does not change, and becomes `mean`.
class Followed final : public Optimiser {
 public:
  explicit Followed(std::size_t parameters, const std::vector<float>* shown = nullptr)
      : size_(parameters), shown_(shown) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double /*lr*/) override {
    require_stretch(parameters, mean, begin, size_);
    if (shown_ == nullptr) {
      std::ranges::copy(mean, parameters.begin());
      return;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += mean[i] - (*shown_)[begin + i];
  }
  void visit_state(StateVisitor& /*visitor*/) override {}

 private:
  std::size_t size_;
  const std::vector<float>* shown_;
};

// A thread that works in steps. In the middle of each step it hands control back to the thread that started the step:
// one of the two runs at a time, and each sees all that the other did.
class LoopThread {
 public:
  // `work` is called on the thread, once a step, and calls hand_back() once. It throws nothing but Ended.
  explicit LoopThread(std::function<void()> work);
  ~LoopThread() { end(); }

  struct Ended {};

  // Ends the thread, and waits for it. In the middle of a step hand_back() then throws Ended.
  void end();
  // For the other thread. Each call returns when control is back.
  void start_step() { give(Turn::start); }
  void go_on() { give(Turn::middle); }
  // Whether the work has handed control back and waits for go_on(). Otherwise it has ended, or never started.
  bool in_the_middle() const {
    const Lock lock(mutex_);
    return handed_back_;
  }

  // Called within `work`: returns after go_on().
  void hand_back();

 private:
  enum class Turn : std::uint8_t { asker, start, middle, ending };
  void give(Turn turn);
  void serve();

  std::function<void()> work_;
  mutable Mutex mutex_;
  Condition changed_;
  Turn turn_ SOTTO_GUARDED_BY(mutex_) = Turn::asker;
  bool handed_back_ SOTTO_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last
};

// Drives an Algorithm from the training loop of a user's model and optimiser. A step of the algorithm runs on its own
// thread. Where it needs the gradient it waits until the user's optimiser has taken its step. Then the algorithm's
// vector moves as far as the model's parameters moved, to the last bit if both were the same. This runs the algorithms
// of `sotto train` with any optimiser.
//
// If ranks go at their own speed, the algorithm's vector changes at any time. The loop's parameters are brought up to
// date when a step begins, and the vector then moves as far as the loop moves them from there.
//
// Every change of the parameters since the last step counts as this rank's step. The call that finds an error of the
// algorithm throws it, and so does every later step; other ranks fail through the closed connections.
class Stepper final : private Worker {
 public:
  // Collective. The parameters must be the same on all ranks when the first step begins. ConfigError for options that
  // the algorithm cannot have, and for ranks that differ in anything.
  Stepper(std::unique_ptr<FlatModel> model, StepperOptions options, std::shared_ptr<Communicator> communicator);

  // Called before the loop's optimiser takes its step; if starts_early(), also before the gradient is computed, so that
  // messages travel meanwhile. Only the first of several calls counts. `lr` is the optimiser's.
  void begin(double lr);
  // Called after the optimiser's step: the parameters become the algorithm's result. ConfigError if no step has begun.
  void end();
  bool starts_early() const { return algorithm_->traits().starts_early; }
  bool failed() const { return error_ != nullptr; }  // for good

  // The functions below are called between steps (ConfigError otherwise). If ranks go at their own speed, all of them
  // meet in each of these calls. A mean would spread a model that is not finite to all ranks: if a rank has one, there
  // is a NumericError on all ranks, and nothing changes. Collective: all ranks take the exact mean model and continue
  // from there. The mean includes messages that are on their way.
  void take_average();
  // Collective: the parameters become the mean over all ranks until show_own() restores this rank's. Until then there
  // can be no step, take_average(), load() or second mean.
  void show_mean();
  void show_own();
  // Collective: other vectors become their means over all ranks. What all ranks have alike stays as it is, infinities
  // too. ConfigError on all ranks if one has other names, shapes or types.
  void average(std::vector<NamedDoubles> vectors);

  AveragerStats stats() const;
  std::string methods() const;
  // All that a state must match to be loaded; without the `graph`, all that it must match for rejoin().
  std::string identity(bool graph) const;
  int rank() const { return communicator_->rank(); }
  int ranks() const { return communicator_->size(); }
  // The step of a state: of each rank or, if ranks go at their own speed, of all together.
  std::uint64_t step() const;
  // The steps of each rank. If ranks go at their own speed these are the steps that this rank has heard of; after
  // take_average(), average() and state() they are exact.
  std::vector<std::uint64_t> steps() const;

  StateValues state();
  // Collective: see gather() in terms.h.
  std::vector<std::string> gather(const std::string& own);
  // Collective: continues before this step, from a state() taken there, with its parameters. A FileError on this rank
  // leaves everything as it was, and is a CommError on the others. States of different steps are a CommError, too.
  void load(std::uint64_t step, const StateValues& values);
  // Called instead of load() on a rank that has no state to load.
  void refuse_load();

  // For ranks whose group changes:
  // The names of those values of the last state() that are the same on all ranks.
  std::vector<std::string> shared();
  // Collective, before the first step: continues before this step in place of a Stepper of another group. `former` is
  // what this rank had there. If this rank is new, former.rank is below 0, and former.values has only the shared()
  // values of another rank. The parameters become the exact mean of the models of ranks that are not new. Each rank
  // keeps what it held back; the steps of ranks that go at their own speed are dealt out evenly. FileError on this rank
  // is a CommError on the others; states of different steps are a ConfigError on all, and a model that is not finite is
  // a NumericError.
  void rejoin(std::uint64_t step, const FormerState& former);
  // This rank fails for good, with a ConfigError, and the others are told why.
  void refuse(const std::string& why);

 private:
  // Worker, for the algorithm, in the middle of a step on its thread.
  std::span<float> parameters() override { return shown_; }
  std::span<float> gradient() override { return moved_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return followed_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& /*calls*/) override {
    thread_.hand_back();
    return 0;
  }

  // The other functions run on the thread of the loop.
  std::unique_ptr<Algorithm> make();
  Terms terms() const;
  void step_of_algorithm();
  void fail(const std::exception& error);
  void check() const;
  void idle();
  void follow(const std::function<void()>& f);
  void require_own_model() const;
  void look();
  std::vector<float> changes() const;
  template <class Float>
  void require_finite_everywhere(const std::vector<Float>& values, const Layout& layout);
  void take_mean(std::vector<float> by_hand, bool counts, const std::function<void()>& average);
  void require_same_load(std::uint64_t step, const std::exception_ptr& refusal);
  void require_even_commits(std::uint64_t step);
  Traffic traffic() const;
  // Runs `work`; an error in it is for good.
  template <class Work>
  void guarded(Work work) {
    const PlainFloats floats;
    try {
      work();
    } catch (const std::exception& error) {
      thread_.end();
      fail(error);
      check();
    }
  }

  StepperOptions options_;
  std::unique_ptr<FlatModel> model_;
  std::vector<BucketPlan> buckets_;
  std::shared_ptr<Communicator> communicator_;
  bool apart_;                // AlgorithmEntry::Traits::own_speed
  std::vector<float> shown_;  // the model's parameters before the current step of the loop's optimiser
  std::vector<float> moved_;  // and after it
  std::vector<float> own_;    // this rank's parameters while the mean is shown; otherwise empty
  Followed followed_;
  std::unique_ptr<Algorithm> algorithm_;
  StepInput input_;
  Timings timings_;
  Traffic before_;    // of setting up
  Traffic replaced_;  // of algorithms that load() replaced, without the communicator's
  std::uint64_t step_ = 0, steps_ = 0;
  bool fresh_ = true;  // no step was begun yet, and no state loaded
  std::exception_ptr error_;
  LoopThread thread_;  // last: it ends before what it uses
};

}  // namespace sotto
