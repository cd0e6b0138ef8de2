#include "app/cli/advise_check.h"

#include <fmt/format.h>

#include "app/cli/train_job.h"
#include "app/cli/trials.h"
#include "app/launch/signals.h"
#include "app/report/recorded_run.h"
#include "sotto/core/error.h"

namespace sotto {

int train_for_check(const TrainOptions& options, std::int64_t steps, const std::string& folder,
                    std::span<const std::string> codecs, std::vector<CheckedRun>& runs) {
  const Signals signals;  // one between two trainings ends the check, too
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    TrainOptions job = options;
    job.link.reset();
    job.max_steps = job.epochs = job.eval_freq.emplace(steps);
    job.codec = codecs[i];
    if (i == 0) job.aggregator = TrainOptions{}.aggregator;  // which is for the others
    job.train_dir = fmt::format("{}/{}", folder, folder_name(i + 1, codecs.size(), job.codec));
    LaunchSpec spec = train_job(job);
    spec.show_lines = false;
    Console console;
    console.label(fmt::format("check {}/{} {}  ", i + 1, codecs.size(), job.codec));
    const LaunchResult launched = run_train_job(spec, job.train_dir, console);
    if (launched.signal != 0) return 128 + launched.signal;
    CheckedRun& run = runs.emplace_back();
    if (launched.status != 0) {
      if (i == 0) throw Error(fmt::format("the check with `{}` failed: {}", job.codec, launched.error));
      if (launched.reason != Reason::not_finite) run.error = launched.error;
      continue;
    }
    const Trial trial{
        .point = {}, .name = job.codec, .folder = job.train_dir, .options = job, .scores = {}, .error = {}};
    const TrialResult result = read_result(trial, {});
    run.first_loss = read_recorded_run(job.train_dir).loss.mean.front();
    run.last_loss = result.score;
    if (result.tested) run.tested = result.goal.with_unit(*result.tested);
  }
  return 0;
}

}  // namespace sotto
