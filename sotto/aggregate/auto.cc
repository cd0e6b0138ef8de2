#include "sotto/aggregate/aggregators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/gathered_step.h"
#include "sotto/codec/codec.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// The cost of a round of messages, in bytes. Up to this size collectives, too, save rounds rather than bytes.
constexpr double round_bytes = 16384;
// scatter_reduce is never chosen if it needs more steps than this for one step of gather, whatever it saves: learning
// rates that suit gather would be too large for so much noise. Only the first step is measured, and later steps have
// more noise: ATOMO on ResNet-20, with 1.7 in the first step and 2.1 in most others, lost four points of accuracy.
constexpr double most_steps = 1.5;
constexpr double unit = 1e-3;  // unit of steps_
constexpr double unbounded = 1e6;

// The memory of two aggregators. The second one sends a bucket that the first one could not send. The bucket is
// prepared only once.
class PreparedOnce final : public Memory {
 public:
  explicit PreparedOnce(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  void begin() { prepared_.reset(); }  // the next prepare() is of another bucket, or step
  Bucket prepare(const Bucket& gradient, const StepContext& step, std::span<float> owed) override {
    if (!prepared_) prepared_ = memory_->prepare(gradient, step, owed);
    return *prepared_;
  }
  void settle(Bucket& prepared, Sent& sent) override { memory_->settle(prepared, sent); }
  void finish(Bucket& mean) override { memory_->finish(mean); }
  void hold(const Bucket& owed) override { memory_->hold(owed); }
  bool remembers() const override { return memory_->remembers(); }
  void visit_state(StateVisitor& visitor) override { memory_->visit_state(visitor); }

 private:
  std::shared_ptr<Memory> memory_;
  std::optional<Bucket> prepared_;
};

class AutoAggregator final : public Aggregator {
 public:
  explicit AutoAggregator(AggregatorParts parts) : parts_(std::move(parts)) {
    const std::optional<DType> type = parts_.codec->traits().linear_type;
    linear_ = type.has_value();
    if (linear_ && type != DType::f32) parts_.memory = once_ = std::make_shared<PreparedOnce>(parts_.memory);
    inner_ = linear_ ? make_all_reduce(parts_) : make_gather(parts_);
    measure_anew();
  }

  std::string_view name() const override { return inner_->name(); }

  std::string remark() const override {
    if (parts_.ranks == 1) return "";
    if (linear_)
      return fmt::format("aggregator: all_reduce, as `{}` can be summed on the way{}", parts_.codec->traits().text,
                         instead_ ? "; gather where a value is too large for that" : "");
    if (choice_ == open) return "";
    std::string chosen, others;
    const std::array bytes{std::uint64_t{0}, gather_bytes_, scatter_bytes_, sparse_bytes_};
    for (const Choice choice : {gather, scatter, sparse}) {
      std::string why = more_steps(choice);
      if (choice == choice_) {
        chosen = fmt::format("{}, {} a rank and step{}", names[choice], kib(bytes[choice]), why);
      } else if (bytes[choice] > 0) {
        if (why.empty() && bytes[choice] < bytes[choice_]) {
          why = fmt::format(" in more rounds, each of which takes as long as {:.0f} KiB a bucket", round_bytes / 1024);
        }
        others += fmt::format("{} {} for {}{}", others.empty() ? ", against" : " and", kib(bytes[choice]),
                              names[choice], why);
      }
    }
    return "aggregator: " + chosen + others;
  }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    if (once_) return average_or_gather(bucket, key, step, communicator, timings);
    const std::uint64_t before = communicator.traffic().bytes_sent;
    inner_->average(bucket, key, step, communicator, timings);
    if (!first_) return;
    Timer timer;
    first_->add(bucket, key, communicator.traffic().bytes_sent - before);
    timings.encode += timer.lap();
    if (!first_->complete()) return;
    choose(first_->forecast(communicator));
    timings.network += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    if (!linear_) {
      const std::uint64_t before = choice_;
      ScopedState own(visitor, "auto");
      own.visit("choice", choice_);
      own.visit("gather_bytes", gather_bytes_);
      own.visit("scatter_reduce_bytes", scatter_bytes_);
      own.visit("sparse_bytes", sparse_bytes_);
      own.visit("thousandths_of_steps", steps_);
      if (choice_ != before) adopt();  // if the state was only written, nothing that was seen is forgotten
    }
    inner_->visit_state(visitor);
  }

  void visit_shared(StateVisitor& visitor) override { inner_->visit_shared(visitor); }

  void retire() override { inner_->retire(); }

 private:
  // A value may be too large for a sum in 16 bits, though not for a message. All ranks then gather this bucket: the
  // user has not asked for the sum.
  void average_or_gather(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
                         Timings& timings) {
    once_->begin();
    try {
      inner_->average(bucket, key, step, communicator, timings);
    } catch (const DoesNotFit&) {
      if (!instead_) instead_ = make_gather(parts_);
      instead_->average(bucket, key, step, communicator, timings);
      once_->finish(bucket);
    }
  }

  enum Choice : std::uint64_t { open, gather, scatter, sparse };
  static constexpr std::array<std::string_view, 4> names{"", "gather", "scatter_reduce", "sparse"};

  static std::string kib(std::uint64_t bytes) { return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024); }

  // What the second encoding costs, if that is noticeable.
  std::string more_steps(Choice choice) const {
    if (choice != scatter || parts_.memory->remembers() || steps_ < 1005) return "";
    if (static_cast<double>(steps_) * unit >= unbounded)
      return ", whose second encoding would leave nothing of the mean";
    return fmt::format(", whose second encoding makes {:.2f} steps of one", static_cast<double>(steps_) * unit);
  }

  void choose(const Forecast& forecast) {
    gather_bytes_ = static_cast<std::uint64_t>(forecast.gather);
    scatter_bytes_ = static_cast<std::uint64_t>(forecast.scatter_reduce);
    sparse_bytes_ = static_cast<std::uint64_t>(forecast.sparse);
    steps_ = static_cast<std::uint64_t>(std::min(forecast.steps, unbounded) / unit);
    const double round = round_bytes * static_cast<double>(parts_.buckets.size());
    const bool keeps = parts_.memory->remembers();  // then what the second encoding loses is sent later
    const double steps = keeps ? 1 : forecast.steps;
    const double gathers = forecast.gather + round;
    const double scatters = (forecast.scatter_reduce + 2 * round) * steps;
    const double balances = forecast.sparse + (2 + 3.0 / sparse_period) * round;  // and three sums per period
    choice_ = gather;
    if (steps <= most_steps && scatters < gathers) choice_ = scatter;
    if (forecast.sparse > 0 && balances < std::min(gathers, scatters)) choice_ = sparse;
    adopt();
  }

  // Switches to the choice, with the same memory: all of these aggregators use it alike.
  void adopt() {
    if (choice_ > sparse || (choice_ == sparse && !sparse_can_be_had(parts_))) {
      throw FileError(fmt::format("a checkpoint with auto/choice {}: there is none", choice_));
    }
    measure_anew();
    if (choice_ == open || choice_ == gather || inner_->name() == names[choice_]) return;
    inner_ = choice_ == scatter ? make_scatter_reduce(parts_) : make_sparse(parts_);
  }

  void measure_anew() {
    first_.reset();
    if (!linear_ && choice_ == open && parts_.ranks > 1) first_ = std::make_unique<GatheredStep>(parts_);
  }

  AggregatorParts parts_;
  bool linear_ = false;
  std::unique_ptr<Aggregator> inner_;
  std::shared_ptr<PreparedOnce> once_;   // if inner_ sums 16 bits
  std::unique_ptr<Aggregator> instead_;  // in place of inner_, for buckets that did not fit; null until the first one
  std::unique_ptr<GatheredStep> first_;  // until a choice is made
  std::uint64_t choice_ = open;
  std::uint64_t gather_bytes_ = 0, scatter_bytes_ = 0, sparse_bytes_ = 0;  // per rank and step; 0: cannot be used
  std::uint64_t steps_ = 1000;                                             // thousandths of Forecast::steps
};

}  // namespace

std::unique_ptr<Aggregator> make_auto(AggregatorParts parts) {
  return std::make_unique<AutoAggregator>(std::move(parts));
}

}  // namespace sotto
