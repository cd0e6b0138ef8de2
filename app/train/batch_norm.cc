#include "app/train/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sotto/aggregate/aggregate.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

bool averages_batch_norm(const Choices& choices, Task& task, int ranks) {
  const TrainOptions& options = choices.options;
  if (!options.average_batch_norm) return false;
  if (task.buffers().empty()) {
    throw ConfigError(fmt::format("{}: {} has no batch-norm statistics", named("average-batch-norm"), options.model));
  }
  if (!all_in_step(choices.algorithm, ranks)) {
    throw ConfigError(fmt::format(
        "{}: `{}` has no step in which all ranks train the same model; statistics are averaged for evaluation",
        named("average-batch-norm"), options.algorithm));
  }
  return true;
}

void average_batch_norm(Task& task, Communicator& communicator, StepReport& report) {
  const Timer timer;
  aggregate(task.buffers(), Op::avg, communicator);
  const double seconds = timer.seconds();
  report.timings.network += seconds;
  report.wait += seconds;
  report.seconds += seconds;
}

void lend_batch_norm(Task& task, int idle, Communicator& communicator) {
  if (idle == 0) return;
  const auto own = task.buffers();
  std::vector<float> mean(own.begin(), own.end());
  const bool takes = communicator.rank() < idle;
  if (takes) std::ranges::fill(mean, 0.0F);
  communicator.all_reduce(mean);
  const auto trained = static_cast<float>(communicator.size() - idle);
  if (takes) std::ranges::transform(mean, own.begin(), [&](float sum) { return sum / trained; });
}

}  // namespace sotto
