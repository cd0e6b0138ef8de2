#include "app/advise/measurements.h"

#include <ctime>

#include "adapters/c10d/transports.h"
#include "app/train/folder/weights.h"
#include "app/train/replica.h"
#include "sotto/core/floats.h"

namespace sotto {
namespace {

constexpr std::size_t warm_steps = 2, fewest_steps = 5, most_steps = 100;
constexpr double enough_seconds = 2;

// Seconds for which the calling thread had a core.
double busy_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr std::size_t long_message = 1 << 20;
constexpr int rounds = 15;

// How long it takes until two ranks have each other's message.
double swap_seconds(Communicator& communicator, std::size_t bytes) {
  std::vector<std::byte> data(bytes), room(bytes);
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i) {
    communicator.barrier();
    const Timer timer;
    const Send send{1 - communicator.rank(), data};
    Recv recv{1 - communicator.rank(), room};
    communicator.exchange({&send, 1}, {&recv, 1});
    if (i > 0) seconds.push_back(timer.seconds());
  }
  return median(std::move(seconds));
}

// Takes the steps of a rank, and exchanges nothing. One thread uses it.
class LoneRank {
 public:
  LoneRank(const Choices& choices, Task& task)
      : lr_(choices.optimiser.lr),
        replica_(task, make_optimiser(choices.optimiser, task.layout()), plan_buckets(task.layout(), choices.buckets),
                 static_cast<std::uint64_t>(choices.options.accumulate),
                 static_cast<std::uint64_t>(choices.options.seed), /*rank=*/0),
        overlap_(choices.options.overlap) {
    if (clips(choices.optimiser.clip, "before")) replica_.clip_gradients(choices.optimiser.clip);
  }

  Replica& replica() { return replica_; }
  // Makes a step. Calls `ready`, unless it is empty, when a bucket holds the vector that would be exchanged.
  // NumericError if training diverges.
  ComputeTimes step(const std::function<void(std::size_t bucket)>& ready) {
    ComputeTimes times;
    Timer timer;
    replica_.optimiser().begin_step(step_);
    const auto finish = [&](std::size_t bucket) {
      offer_in_place(replica_, replica_.buckets()[bucket]);
      if (ready) ready(bucket);
      times.ready.push_back(timer.lap());
    };
    BucketCalls calls;
    if (overlap_) calls.ready = finish;
    replica_.compute_gradient(step_, calls);
    if (!overlap_) {
      for (std::size_t b = 0; b < replica_.buckets().size(); ++b) finish(b);
    }
    times.rest = timer.lap();
    replica_.optimiser().apply(replica_.parameters(), replica_.gradient(), 0, lr_);
    times.apply = timer.lap();
    ++step_;
    return times;
  }

 private:
  double lr_;
  Replica replica_;
  bool overlap_;
  std::uint64_t step_ = 0;
};

}  // namespace

Companions::Companions(const Choices& choices, std::size_t count) {
  const int ranks = static_cast<int>(choices.options.ranks);
  for (std::size_t i = 0; i < count; ++i) {
    tasks_.push_back(make_task(choices, {static_cast<int>(i + 1) % ranks, ranks}));
  }
  for (const auto& task : tasks_) {
    threads_.push_back(start_thread("other rank", [this, &choices, &task] {
      LoneRank rank(choices, *task);
      try {
        while (!stop_) rank.step({});
      } catch (const NumericError&) {  // it diverged
      }
    }));
  }
}

Companions::~Companions() {
  stop_ = true;
  for (auto& thread : threads_) thread.join();
}

MeasuredCompute measure_compute(const Choices& choices, std::size_t gradients) {
  const auto task = make_task(choices, {0, static_cast<int>(choices.options.ranks)});
  start_from_weights(choices.options, *task);
  LoneRank alone(choices, *task);
  Replica& replica = alone.replica();
  MeasuredCompute measured{.layout = task->layout(),
                           .buckets = {replica.buckets().begin(), replica.buckets().end()},
                           .times = {},
                           .share = 1,
                           .gradients = {}};
  for (std::size_t g = 0; g < gradients; ++g) {
    auto& copy = measured.gradients.emplace_back(task->layout().size());
    alone.step([&](std::size_t bucket) {
      const Range range = measured.buckets[bucket].range;
      const auto values = replica.gradient().subspan(range.begin, range.size());
      std::ranges::copy(values, copy.begin() + static_cast<std::ptrdiff_t>(range.begin));
    });
  }
  for (std::size_t g = gradients; g < warm_steps; ++g) alone.step({});
  std::vector<ComputeTimes> steps;
  double waited = 0;  // for data
  const double busy = busy_seconds();
  const Timer timer;
  while (steps.size() < most_steps && (steps.size() < fewest_steps || timer.seconds() < enough_seconds)) {
    steps.push_back(alone.step({}));
    waited += replica.data_seconds();
  }
  measured.share = (busy_seconds() - busy + waited) / timer.seconds();
  const auto over_steps = [&](auto&& value) {
    std::vector<double> values;
    for (const ComputeTimes& step : steps) values.push_back(value(step));
    return median(std::move(values));
  };
  for (std::size_t b = 0; b < measured.buckets.size(); ++b) {
    measured.times.ready.push_back(over_steps([b](const ComputeTimes& step) { return step.ready[b]; }));
  }
  measured.times.rest = over_steps([](const ComputeTimes& step) { return step.rest; });
  measured.times.apply = over_steps([](const ComputeTimes& step) { return step.apply; });
  return measured;
}

HostCost measure_host_cost() {
  HostCost cost;
  const auto connect = transport_table().begin()->make;
  run_two_ranks(connect, "", std::chrono::seconds(30), [&](Communicator& communicator) {
    const double message = swap_seconds(communicator, 4), long_one = swap_seconds(communicator, long_message);
    if (communicator.rank() == 0) cost = {message, std::max(0.0, long_one - message) / long_message};
  });
  return cost;
}

}  // namespace sotto
