#include "sotto/aggregate/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/gather.h"
#include "sotto/aggregate/gathered_step.h"
#include "sotto/aggregate/scatter_reduce.h"
#include "sotto/aggregate/sparse.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// What a round of messages costs, in bytes. Collectives, too, save rounds rather than bytes up to this size.
constexpr double round_bytes = 16384;
// scatter_reduce is never chosen if its second encoding makes more steps than this of one, whatever it saves: learning
// rates that suit gather would be too large for so much noise. Only the first step is measured, and later steps have
// more noise: ATOMO on ResNet-20, with 1.7 in the first step and 2.1 in most others, lost four points of accuracy.
constexpr double most_steps = 1.5;
constexpr double unit = 1e-3;  // unit of steps_
constexpr double unbounded = 1e6;

class AutoAggregator final : public Aggregator {
 public:
  explicit AutoAggregator(AggregatorParts parts) : parts_(std::move(parts)) {
    linear_ = parts_.codec->traits().linear_type.has_value();
    inner_ = linear_ ? make_all_reduce(parts_) : make_gather(parts_);
    measure_anew();
  }

  std::string_view name() const override { return inner_->name(); }

  std::string remark() const override {
    if (parts_.ranks == 1) return "";
    if (linear_)
      return fmt::format("aggregator: all_reduce, as `{}` can be summed on the way", parts_.codec->traits().sentence);
    if (choice_ == open) return "";
    std::string chosen, others;
    for (const auto& [choice, bytes] :
         {std::pair{gather, gather_bytes_}, {scatter, scatter_bytes_}, {sparse, sparse_bytes_}}) {
      if (choice == choice_) {
        chosen = fmt::format("{}, {} a rank and step{}", names[choice], kib(bytes), more_steps(choice));
      } else if (bytes > 0) {
        others += fmt::format("{} {} for {}{}", others.empty() ? ", against" : " and", kib(bytes), names[choice],
                              more_steps(choice));
      }
    }
    return "aggregator: " + chosen + others;
  }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
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
      if (choice_ != before) adopt();  // a copy of the state forgets nothing that was seen
    }
    inner_->visit_state(visitor);
  }

  void retire() override { inner_->retire(); }

 private:
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
