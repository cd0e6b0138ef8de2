#include "python/bindings/stepper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "python/bindings/errors.h"
#include "python/bindings/followed.h"
#include "python/bindings/loop_thread.h"
#include "python/bindings/tensor_types.h"
#include "python/bindings/terms.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/core/error.h"
#include "sotto/core/plain_floats.h"
#include "sotto/core/state.h"

namespace sotto::python {
namespace {

// In a state, beside what the last step left: what they have become since, if anything.
constexpr std::string_view changed_parameters = "parameters, changed since";

std::vector<BucketPlan> planned(const Layout& layout, std::size_t bytes) {
  auto plans = plan_buckets(layout, bytes);
  if (plans.size() <= std::numeric_limits<std::uint16_t>::max()) return plans;
  throw ConfigError(fmt::format("{} buckets are too many; make bucket_mb larger", plans.size()));
}

}  // namespace

class Stepper::Impl final : public Worker {
 public:
  Impl(FlatModel model, StepperOptions options, std::shared_ptr<Communicator> communicator)
      : options_(std::move(options)),
        model_(std::move(model)),
        buckets_(planned(model_.layout(), options_.bucket_bytes)),
        communicator_(std::move(communicator)),
        apart_(options_.algorithm.entry->own_speed),
        shown_(model_.layout().size()),
        moved_(model_.layout().size()),
        followed_(shown_.size(), apart_ ? &shown_ : nullptr),
        thread_([this] { step_of_algorithm(); }) {
    std::exception_ptr refusal;
    try {
      algorithm_ = make();
    } catch (const ConfigError&) {
      refusal = std::current_exception();
    }
    require_same_terms(*communicator_, refusal ? Terms() : terms(), refusal, "wraps another model than");
    before_ = traffic();
  }

  // --- Worker, in the middle of a step, on its thread --------------------------------------------------------------

  std::span<float> parameters() override { return shown_; }
  std::span<float> gradient() override { return moved_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return followed_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& /*calls*/) override {
    thread_.hand_back();
    return 0;
  }

  // --- all below: on the thread of the loop ------------------------------------------------------------------------

  void begin(double lr) {
    check();
    require_own_model();
    if (thread_.in_the_middle()) return;
    guarded([this] { look(); });
    fresh_ = false;
    input_ = {.step = step_, .lr = lr, .meeting = std::numeric_limits<std::uint64_t>::max()};
    guarded([this] { follow([this] { thread_.start_step(); }); });
    check();
  }

  void end() {
    check();
    if (!thread_.in_the_middle()) {
      throw ConfigError("no step has begun that could end: the post hooks of the optimizer ran without its pre hooks");
    }
    guarded([this] { model_.read(moved_); });
    thread_.go_on();
    check();
    if (apart_) {
      shown_ = moved_;  // what others made of it comes with the next step
    } else {
      model_.write(shown_);
    }
    ++step_;
    ++steps_;
  }

  void take_average() {
    idle();
    require_own_model();
    look();
    fresh_ = false;
    guarded([this] {
      std::vector<float> by_hand = changes();  // which belong to the next step, and to the mean model
      const bool changed = std::ranges::any_of(by_hand, [](float change) { return change != 0; });
      const bool anywhere = !std::ranges::all_of(of_all_ranks(*communicator_, changed ? 1 : 0), std::logical_not());
      if (anywhere) aggregate(by_hand, Op::avg, *communicator_);
      algorithm_->average_models(*this);
      if (anywhere) std::ranges::transform(by_hand, shown_, by_hand.begin(), std::plus());
      model_.write(anywhere ? by_hand : shown_);
    });
  }

  void show_mean() {
    idle();
    require_own_model();
    guarded([this] {
      model_.read(moved_);
      std::vector<float> own = moved_;
      aggregate(moved_, Op::avg, *communicator_);
      model_.write(moved_);
      own_ = std::move(own);
    });
  }

  // Whatever failed since then.
  void show_own() {
    if (own_.empty()) return;
    const std::vector<float> own = std::exchange(own_, {});
    model_.write(own);
  }

  at::Tensor mean(const at::Tensor& tensor) {
    idle();
    const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat, false, /*copy=*/true).contiguous();
    guarded([&] { aggregate(floats_of(values), Op::avg, *communicator_); });
    return values;
  }

  StateValues state() {
    idle();
    look();
    std::vector<float>& now = own_.empty() ? moved_ : own_;
    if (own_.empty()) model_.read(now);
    model_.layout().clear_padding(now);
    StateCollector collector;
    algorithm_->enter(step_);
    algorithm_->visit_state(collector);
    visit_vector(collector, "parameters", shown_);
    if (!std::ranges::equal(std::as_bytes(std::span(now)), std::as_bytes(std::span(shown_)))) {
      visit_vector(collector, changed_parameters, now);
    }
    return collector.take();
  }

  std::vector<std::string> gather(const std::string& own) {
    idle();
    std::vector<std::string> all;
    guarded([&] { all = sotto::python::gather(*communicator_, own); });
    return all;
  }

  void load(std::uint64_t step, const StateValues& values) {
    idle();
    if (apart_ || options_.own.node_size > 1) require_same_load(step, nullptr);  // before it is made by all together
    std::unique_ptr<Algorithm> made;
    std::vector<float> parameters(shown_.size()), now;
    std::exception_ptr refusal;
    try {
      require_own_model();
      made = make();
      made->enter(step);
      StateRestorer restorer(values);
      made->visit_state(restorer);
      visit_vector(restorer, "parameters", parameters);
      model_.layout().clear_padding(parameters);
      now = parameters;
      if (values.contains(changed_parameters)) visit_vector(restorer, changed_parameters, now);
      restorer.finish();
    } catch (...) {  // others wait for it, whatever it is
      refusal = std::current_exception();
    }
    require_same_load(step, refusal);
    replaced_ = traffic();
    replaced_.bytes_sent -= communicator_->traffic().bytes_sent;
    replaced_.bytes_received -= communicator_->traffic().bytes_received;
    algorithm_ = std::move(made);
    shown_ = std::move(parameters);
    model_.write(now);
    step_ = apart_ ? algorithm_->own_speed()->rank_steps()[static_cast<std::size_t>(communicator_->rank())] : step;
    fresh_ = false;
  }

  void refuse_load() {
    idle();
    guarded([this] { of_all_ranks(*communicator_, refused); });
  }

  AveragerStats stats() {
    const Traffic now = traffic();
    const auto ranks = static_cast<std::uint64_t>(communicator_->size());
    const std::uint64_t dense = model_.layout().numel() * sizeof(float) * 2 * (ranks - 1) / ranks;
    return {steps_, now.bytes_sent - before_.bytes_sent, now.bytes_received - before_.bytes_received, steps_ * dense,
            timings_};
  }

  std::string methods() {
    std::string text =
        fmt::format("{}: {} by {}", options_.algorithm.said(), options_.own.recipe().text(), algorithm_->aggregator());
    if (const std::string remark = algorithm_->remark(); !remark.empty()) text += fmt::format(" ({})", remark);
    return text + "\n";
  }

  std::string identity() const {
    const AlgorithmOptions& own = options_.own;
    std::string text = fmt::format("{}, seed {}, buckets of {} bytes\n{} by {}\n", options_.algorithm.said(), own.seed,
                                   options_.bucket_bytes, own.recipe().text(), text_of(own.recipe().aggregator));
    if (options_.algorithm.entry->uses_topology) {
      text += fmt::format("{}, {}\n", own.topology.text(), own.mixing.text());
      for (const TopologyPhase& phase : own.topologies) {
        text += fmt::format("from step {} {}\n", phase.first, phase.topology.text());
      }
      if (own.node_size > 1) text += fmt::format("between nodes of {}\n", own.node_size);
    }
    for (const Segment& segment : model_.layout().segments()) {
      text += "  " + segment.name;
      for (const std::int64_t size : segment.shape) text += fmt::format(" {}", size);
      text += '\n';
    }
    return text;
  }

  // The room for a message depends on all of this.
  Terms terms() const {
    const AlgorithmOptions& own = options_.own;
    Terms terms{{"what is averaged", "models"},
                {"algorithm", options_.algorithm.said()},
                {"codec", own.recipe().text()},
                {"aggregator", text_of(own.recipe().aggregator)},
                {"topology", own.topology.text()},
                {"mixing", own.mixing.text()},
                {"node_size", std::to_string(own.node_size)}};
    for (const TopologyPhase& phase : own.topologies) {
      terms.emplace_back("peers_per_step", fmt::format("from step {} {}", phase.first, phase.topology.text()));
    }
    terms.emplace_back("seed", std::to_string(own.seed));
    terms.emplace_back("bucket_mb", fmt::format("{}", static_cast<double>(options_.bucket_bytes) / (1 << 20)));
    for (const Segment& segment : model_.layout().segments()) {
      terms.emplace_back(segment.name, fmt::format("({})", fmt::join(segment.shape, ", ")));
    }
    return terms;
  }

  bool starts_early() const { return algorithm_->traits().starts_early; }
  bool failed() const { return error_ != nullptr; }
  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t step() const {
    if (!apart_) return step_;
    const auto all = steps();
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  }
  std::vector<std::uint64_t> steps() const {
    if (apart_) return algorithm_->own_speed()->rank_steps();
    return std::vector<std::uint64_t>(static_cast<std::size_t>(communicator_->size()), step_);
  }

 private:
  std::unique_ptr<Algorithm> make() {
    try {
      return make_algorithm(options_.algorithm, options_.own, buckets_, *communicator_);
    } catch (const ConfigError& error) {
      throw ConfigError(error.text(argument_spelling));
    }
  }

  // On the thread of the algorithm.
  void step_of_algorithm() {
    const PlainFloats floats;
    try {
      timings_ += algorithm_->step(*this, input_).timings;
    } catch (const std::exception& error) {
      fail(error);
    }
  }

  // For good: this rank no longer goes with the others, who learn of it.
  void fail(const std::exception& error) {
    error_ = std::current_exception();
    try {
      if (const auto* config = dynamic_cast<const ConfigError*>(&error)) {
        error_ = std::make_exception_ptr(ConfigError(config->text(argument_spelling)));
      }
      if (!apart_) algorithm_->rest();  // who gives up must have nothing on its way
    } catch (const std::exception&) {   // NOLINT(bugprone-empty-catch): the first error counts
    }
    communicator_->give_up(error.what());
    if (apart_) algorithm_->own_speed()->abandon();
  }
  void check() const {
    if (error_) std::rethrow_exception(error_);
  }
  // What fails in it, fails for good.
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

  // The algorithm is this thread's, and nothing is on its way.
  void idle() {
    check();
    if (thread_.in_the_middle()) {
      throw ConfigError(
          "a step has begun with the last forward: call this between optimizer.step() and the next "
          "forward in training mode");
    }
    guarded([this] { follow([this] { algorithm_->rest(); }); });
  }

  // What `f` makes of an algorithm's vector that changes beside the loop becomes the parameters, with what the loop
  // changed since.
  void follow(const std::function<void()>& f) {
    if (!apart_ || fresh_ || !own_.empty()) return f();
    model_.read(moved_);
    std::ranges::transform(moved_, shown_, moved_.begin(), std::minus());
    f();
    std::ranges::transform(moved_, shown_, moved_.begin(), std::plus());
    model_.write(moved_);
  }

  // Of what the model shows in place of it, nothing may become a step or be lost.
  void require_own_model() const {
    if (own_.empty()) return;
    throw ConfigError("the module shows the mean of all ranks' models; train outside of `with .. average():`");
  }

  // Before the first step parameters may have been loaded since the module was wrapped.
  void look() {
    if (!fresh_) return;
    if (own_.empty()) return model_.read(shown_);
    shown_ = own_;
  }

  // Of the parameters since the last step: how far the loop moved them by hand.
  std::vector<float> changes() const {
    std::vector<float> by_hand(shown_.size());
    model_.read(by_hand);
    std::ranges::transform(by_hand, shown_, by_hand.begin(), std::minus());
    model_.layout().clear_padding(by_hand);
    return by_hand;
  }

  // Who goes on alone would send what nobody expects.
  void require_same_load(std::uint64_t step, const std::exception_ptr& refusal) {
    std::vector<std::uint64_t> all;
    guarded([&] { all = of_all_ranks(*communicator_, refusal ? refused : step + 1); });
    if (refusal) std::rethrow_exception(refusal);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == refused) throw CommError(fmt::format("rank {} refuses its state; its own error says why", rank));
      if (all[rank] == step + 1) continue;
      throw CommError(fmt::format("rank {} loads the state of step {}, and rank {} that of step {}", rank,
                                  all[rank] - 1, communicator_->rank(), step));
    }
  }

  Traffic traffic() const {
    Traffic sum = communicator_->traffic();
    const Traffic beside = algorithm_->traffic();
    sum.bytes_sent += beside.bytes_sent + replaced_.bytes_sent;
    sum.bytes_received += beside.bytes_received + replaced_.bytes_received;
    return sum;
  }

  StepperOptions options_;
  FlatModel model_;
  std::vector<BucketPlan> buckets_;
  std::shared_ptr<Communicator> communicator_;
  bool apart_;                // AlgorithmEntry::own_speed
  std::vector<float> shown_;  // what the model's parameters are, but for this step of the loop's optimiser
  std::vector<float> moved_;  // what that made of them
  std::vector<float> own_;    // what they are while the mean is shown; else empty
  Followed followed_;
  std::unique_ptr<Algorithm> algorithm_;
  StepInput input_;
  Timings timings_;
  Traffic before_;    // what setting up took
  Traffic replaced_;  // beside the communicator, of algorithms that load() replaced
  std::uint64_t step_ = 0, steps_ = 0;
  bool fresh_ = true;  // no step was begun yet, and no state loaded
  std::exception_ptr error_;
  LoopThread thread_;  // last: it ends before what it uses
};

Stepper::Stepper(FlatModel model, StepperOptions options, std::shared_ptr<Communicator> communicator)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(options), std::move(communicator))) {}

Stepper::~Stepper() = default;

void Stepper::begin(double lr) { impl_->begin(lr); }
void Stepper::end() { impl_->end(); }
bool Stepper::starts_early() const { return impl_->starts_early(); }
bool Stepper::failed() const { return impl_->failed(); }
void Stepper::take_average() { impl_->take_average(); }
void Stepper::show_mean() { impl_->show_mean(); }
void Stepper::show_own() { impl_->show_own(); }
at::Tensor Stepper::mean(const at::Tensor& tensor) { return impl_->mean(tensor); }
AveragerStats Stepper::stats() const { return impl_->stats(); }
std::string Stepper::methods() const { return impl_->methods(); }
std::string Stepper::identity() const { return impl_->identity(); }
int Stepper::rank() const { return impl_->communicator().rank(); }
int Stepper::ranks() const { return impl_->communicator().size(); }
std::uint64_t Stepper::step() const { return impl_->step(); }
std::vector<std::uint64_t> Stepper::steps() const { return impl_->steps(); }
StateValues Stepper::state() { return impl_->state(); }
std::vector<std::string> Stepper::gather(const std::string& own) { return impl_->gather(own); }
void Stepper::refuse_load() { impl_->refuse_load(); }
void Stepper::load(std::uint64_t step, const StateValues& values) { impl_->load(step, values); }

}  // namespace sotto::python
