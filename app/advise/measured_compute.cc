#include "app/advise/measured_compute.h"

#include <algorithm>
#include <ctime>

#include "app/advise/lone_rank.h"
#include "app/train/folder/weights.h"
#include "sotto/core/median.h"
#include "sotto/core/timer.h"

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

}  // namespace

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
  for (std::size_t g = 0; g < std::max(gradients, warm_steps); ++g) {
    if (g >= gradients) {
      alone.step({});
      continue;
    }
    auto& copy = measured.gradients.emplace_back(task->layout().size());
    alone.step([&](std::size_t bucket) {
      const Range range = measured.buckets[bucket].range;
      const auto values = replica.gradient().subspan(range.begin, range.size());
      std::ranges::copy(values, copy.begin() + static_cast<std::ptrdiff_t>(range.begin));
    });
  }
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

}  // namespace sotto
