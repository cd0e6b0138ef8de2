#include <fmt/format.h>

#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/train/evaluator.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/record/progress.h"
#include "app/train/stop_signal.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/output.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Prints a line of metrics for each checkpoint: step 40  loss 0.1234  accuracy 97.12  top5 99.90
Damaged checkpoints are named and skipped; the exit status is then 1.

Examples:
  sotto eval --model-dir runs/topk
  sotto eval --model-dir runs/topk --follow --poll 2
  sotto eval --model-dir runs/translate --texts translations)text";

}  // namespace

int run_eval(std::span<const std::string> arguments) {
  EvalOptions options;
  Flags flags("eval", "Evaluates the checkpoints of a run, in their order.", examples);
  flags.alias("data", "dataset");
  if (!flags.read(arguments, options)) return 0;
  if (options.model_dir.empty()) throw ConfigError("sotto eval: say which run with --model-dir");

  if (options.follow && checkpoint::find(options.model_dir).empty()) {
    print_error(fmt::format("waiting for a first model_step_N in {}{}\n", options.model_dir,
                            path_exists(options.model_dir) ? "" : ", which is not there yet"));
  }
  const StopSignal signals;
  Progress progress("");
  bool damaged = false;
  evaluate_folder(
      options,
      [&](const EvalLine& line) {
        progress.clear();
        if (!line.problem.empty()) {
          print_error(fmt::format("sotto: {}; passed over\n", line.problem));
          damaged = true;
          return;
        }
        for (const std::string& remark : line.remarks) {
          print_error(fmt::format("warning: {}\n", spelled(remark, flag_spelling)));
        }
        fmt::print("step {}  {}\n", line.step, line.metrics.text());
        flush_output();
      },
      [&](std::uint64_t step, std::uint64_t done, std::uint64_t all) {
        if (progress.due()) progress.show(fmt::format("step {}  {} of {} examples are evaluated", step, done, all));
      },
      [] { return StopSignal::caught() == 0; });
  progress.clear();
  return StopSignal::caught() != 0 ? 128 + StopSignal::caught() : damaged ? 1 : 0;
}

}  // namespace sotto
