#include "sotto/capi/stepper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sotto/aggregate/aggregate.h"

namespace sotto {
namespace {

std::vector<BucketPlan> planned(const Layout& layout, std::size_t bytes) {
  auto plans = plan_buckets(layout, bytes);
  if (plans.size() <= std::numeric_limits<std::uint16_t>::max()) return plans;
  throw ConfigError(fmt::format("{} buckets are too many; make bucket_mb larger", plans.size()));
}

// Collective. Drops vectors without NaN that are equal on all ranks, such as a mask of infinities: each is its own
// mean. All ranks pass the same number of vectors.
void drop_alike(std::vector<NamedDoubles>& vectors, Communicator& communicator) {
  std::vector<std::uint64_t> own, all(vectors.size() * static_cast<std::size_t>(communicator.size()));
  for (const NamedDoubles& one : vectors) {
    const auto bytes = std::as_bytes(one.values);
    Hash hash;
    hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    const bool has_nan = std::ranges::any_of(one.values, [](double value) { return std::isnan(value); });
    own.push_back(has_nan ? 0 : hash.value());
  }
  communicator.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  std::size_t next = 0;
  std::erase_if(vectors, [&](const NamedDoubles&) {
    const std::size_t i = next++;
    bool alike = own[i] != 0;
    for (std::size_t other = i; other < all.size(); other += own.size()) alike = alike && all[other] == own[i];
    return alike;
  });
}

// Collective. Sums fractions of the values, so that the sum fits even if values are as large as the largest double.
void average_doubles(std::span<double> values, Communicator& communicator) {
  const double ranks = communicator.size(), share = std::exp2(-std::ceil(std::log2(ranks)));
  for (double& value : values) value *= share;
  communicator.all_reduce(values);
  for (double& value : values) value /= ranks * share;
}

}  // namespace

Stepper::Stepper(std::unique_ptr<FlatModel> model, StepperOptions options, std::shared_ptr<Communicator> communicator)
    : options_(std::move(options)),
      model_(std::move(model)),
      buckets_(planned(model_->layout(), options_.bucket_bytes)),
      communicator_(std::move(communicator)),
      apart_(options_.algorithm.entry->traits.own_speed),
      shown_(model_->layout().size()),
      moved_(model_->layout().size()),
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

std::unique_ptr<Algorithm> Stepper::make() {
  return make_algorithm(options_.algorithm, options_.own, buckets_, *communicator_);
}

void Stepper::begin(double lr) {
  check();
  require_own_model();
  if (thread_.in_the_middle()) return;
  guarded([this] { look(); });
  fresh_ = false;
  input_ = {.step = step_, .lr = lr, .meeting = std::numeric_limits<std::uint64_t>::max()};
  guarded([this] { follow([this] { thread_.start_step(); }); });
  check();
}

void Stepper::end() {
  check();
  if (!thread_.in_the_middle()) {
    throw ConfigError("no step has begun that could end: the post hooks of the optimizer ran without its pre hooks");
  }
  guarded([this] { model_->read(moved_); });
  thread_.go_on();
  check();
  if (apart_) {
    shown_ = moved_;  // changes by others come with the next step
  } else {
    model_->write(shown_);
  }
  ++step_;
  ++steps_;
}

void Stepper::take_average() {
  idle();
  require_own_model();
  look();
  fresh_ = false;
  std::vector<float> by_hand;
  guarded([&] { by_hand = changes(); });
  require_finite_everywhere(by_hand, model_->layout());  // a difference is finite only if both models are
  guarded([&] { take_mean(std::move(by_hand), true, [this] { algorithm_->average_models(*this); }); });
}

template <class Float>
void Stepper::require_finite_everywhere(const std::vector<Float>& values, const Layout& layout) {
  const auto bad = std::ranges::find_if_not(values, [](Float value) { return std::isfinite(value); });
  std::vector<std::uint64_t> all;
  guarded([&] { all = of_all_ranks(*communicator_, static_cast<std::uint64_t>(bad - values.begin())); });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == values.size()) continue;
    throw NumericError(fmt::format(
        "rank {}: {} is not finite, nor would be the mean of all ranks; no model was changed. Load a good one there",
        rank, layout.name_at(all[rank])));
  }
}
template void Stepper::require_finite_everywhere(const std::vector<float>& values, const Layout& layout);

// `by_hand` is how far this rank has moved its parameters by hand; `counts` says whether it has a part in the mean.
// These changes belong to the mean model, and to the next step. `average` makes shown_ the mean of the algorithm's
// models.
void Stepper::take_mean(std::vector<float> by_hand, bool counts, const std::function<void()>& average) {
  const bool changed = std::ranges::any_of(by_hand, [](float change) { return change != 0; });
  const bool anywhere = !std::ranges::all_of(of_all_ranks(*communicator_, changed ? 1 : 0), std::logical_not());
  if (anywhere) average_members(by_hand, *communicator_, counts);
  average();
  if (anywhere) std::ranges::transform(by_hand, shown_, by_hand.begin(), std::plus());
  model_->write(anywhere ? by_hand : shown_);
}

void Stepper::refuse(const std::string& why) {
  if (failed()) return;
  thread_.end();
  try {
    throw ConfigError(why);  // no CommError: after a lost peer an elastic job would continue
  } catch (const ConfigError& error) {
    fail(error);
  }
}

void Stepper::show_mean() {
  idle();
  require_own_model();
  guarded([this] { model_->read(moved_); });
  require_finite_everywhere(moved_, model_->layout());
  guarded([this] {
    std::vector<float> own = moved_;
    aggregate(moved_, Op::avg, *communicator_);
    model_->write(moved_);
    own_ = std::move(own);
  });
}

void Stepper::show_own() {
  if (own_.empty()) return;
  const std::vector<float> own = std::exchange(own_, {});
  model_->write(own);
}

void Stepper::average(std::vector<NamedDoubles> vectors) {
  idle();
  Terms forms;
  for (const NamedDoubles& one : vectors) {
    forms.emplace_back("the shape of " + one.name, one.shape);
    forms.emplace_back("the type of " + one.name, one.type);
  }
  require_same_terms(*communicator_, forms, nullptr, "has other buffers than");
  guarded([&] { drop_alike(vectors, *communicator_); });
  if (vectors.empty()) return;
  Layout layout;
  for (const NamedDoubles& one : vectors) layout.append(one.name, {static_cast<std::int64_t>(one.values.size())});
  std::vector<double> values(layout.size());
  const auto place_of = [&](std::size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(layout.segments()[i].offset);
  };
  for (std::size_t i = 0; i < vectors.size(); ++i) std::ranges::copy(vectors[i].values, place_of(i));
  require_finite_everywhere(values, layout);
  guarded([&] { average_doubles(values, *communicator_); });
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    std::copy_n(place_of(i), vectors[i].values.size(), vectors[i].values.begin());
  }
}

// Runs on the thread of the algorithm.
void Stepper::step_of_algorithm() {
  const PlainFloats floats;
  try {
    timings_ += algorithm_->step(*this, input_).timings;
  } catch (const std::exception& error) {
    fail(error);
  }
}

// This rank fails for good, and the others are told.
void Stepper::fail(const std::exception& error) {
  error_ = std::current_exception();
  try {
    if (!apart_) algorithm_->drain();  // a rank that gives up must have nothing on its way
  } catch (const std::exception&) {    // NOLINT(bugprone-empty-catch): the first error counts
  }
  communicator_->give_up(error.what());
  if (apart_) algorithm_->own_speed()->abandon();
}

void Stepper::check() const {
  if (error_) std::rethrow_exception(error_);
}

// Afterwards this thread may use the algorithm, and no message is on its way.
void Stepper::idle() {
  check();
  if (thread_.in_the_middle()) {
    throw ConfigError(
        "a step has begun with the last forward: call this between optimizer.step() and the next "
        "forward in training mode");
  }
  guarded([this] { follow([this] { algorithm_->drain(); }); });
}

// Runs `f` on an algorithm whose vector changes during the loop. The parameters become the result, plus the loop's
// changes since.
void Stepper::follow(const std::function<void()>& f) {
  if (!apart_ || fresh_ || !own_.empty()) return f();
  model_->read(moved_);
  std::ranges::transform(moved_, shown_, moved_.begin(), std::minus());
  f();
  std::ranges::transform(moved_, shown_, moved_.begin(), std::plus());
  model_->write(moved_);
}

// While the model shows the mean, a change of the model must neither become a step nor be lost.
void Stepper::require_own_model() const {
  if (own_.empty()) return;
  throw ConfigError("the module shows the mean of all ranks' models; train outside of `with .. average():`");
}

// Before the first step the user may have loaded parameters since the module was wrapped.
void Stepper::look() {
  if (!fresh_) return;
  if (own_.empty()) return model_->read(shown_);
  shown_ = own_;
}

// How far the loop has moved the parameters by hand since the last step.
std::vector<float> Stepper::changes() const {
  std::vector<float> by_hand(shown_.size());
  model_->read(by_hand);
  std::ranges::transform(by_hand, shown_, by_hand.begin(), std::minus());
  model_->layout().clear_padding(by_hand);
  return by_hand;
}

LoopThread::LoopThread(std::function<void()> work)
    : work_(std::move(work)), thread_(start_thread("an algorithm", [this] { serve(); })) {}

void LoopThread::end() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(mutex_);
    turn_ = Turn::ending;
  }
  changed_.notify_all();
  thread_.join();
}

void LoopThread::give(Turn turn) {
  Lock lock(mutex_);
  turn_ = turn;
  changed_.notify_all();
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::asker; });
}

void LoopThread::hand_back() {
  Lock lock(mutex_);
  handed_back_ = true;
  turn_ = Turn::asker;
  changed_.notify_all();
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::middle || turn_ == Turn::ending; });
  handed_back_ = false;
  if (turn_ == Turn::ending) throw Ended{};
}

void LoopThread::serve() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return turn_ == Turn::start || turn_ == Turn::ending; });
    if (turn_ == Turn::ending) return;
    lock.unlock();
    try {
      work_();
    } catch (const Ended&) {
      return;
    }
    lock.lock();
    if (turn_ != Turn::ending) turn_ = Turn::asker;
    changed_.notify_all();
  }
}

}  // namespace sotto
