#include <fmt/format.h>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/train/evaluator.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/folder/weights.h"
#include "app/train/record/progress.h"
#include "app/train/stop_signal.h"
#include "sotto/core/file.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Prints a line of metrics for each checkpoint: step 40  loss 0.1234  accuracy 97.12  top5 99.90
Damaged checkpoints are named and skipped; the exit status is then 1.

Examples:
  sotto eval --model-dir runs/topk
  sotto eval --model-dir runs/topk --follow --poll 2
  sotto eval --model-dir runs/translate --texts translations)text";

constexpr std::string_view export_examples = R"text(
The names of the tensors are those that torchvision or Hugging Face use for such a model, if one of them has it.

Examples:
  sotto export --model-dir runs/topk --out lenet.safetensors
  sotto export --model-dir runs/topk --step 400 --type f16 --out half.safetensors)text";

constexpr std::string_view import_examples = R"text(
Prints which tensors of the file are not in the model. A parameter that the file lacks is an error.

Examples:
  sotto import resnet18.safetensors --model resnet18 --data cifar10 --data-dir data/cifar10 --train-dir runs/theirs
  sotto eval --model-dir runs/theirs
  sotto train --weights resnet18.safetensors --model resnet18 --data cifar10 --data-dir data/cifar10)text";

void require_said(std::string_view command, std::string_view option, const std::string& value) {
  refuse(value.empty(), "sotto {}: say --{}", command, option);
}

}  // namespace

int run_eval(std::span<const std::string> arguments) {
  EvalOptions options;
  Flags flags("eval", "Evaluates the checkpoints of a run, in their order.", examples);
  flags.alias("data", "dataset");
  if (!flags.read(arguments, options)) return 0;
  refuse(options.model_dir.empty(), "sotto eval: say which run with --model-dir");

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

int run_export(std::span<const std::string> arguments) {
  ExportOptions options;
  Flags flags("export", "Writes the weights of a checkpoint to a safetensors file.", export_examples);
  if (!flags.read(arguments, options)) return 0;
  require_said("export", "model-dir", options.model_dir);
  require_said("export", "out", options.out);
  const std::uint64_t step = export_weights(options);
  fmt::print("weights after {} steps in {}\n", step, options.out);
  return 0;
}

int run_import(std::span<const std::string> arguments) {
  ImportOptions options;
  Flags flags("import", "Makes a run folder of the weights in a safetensors file.", import_examples);
  flags.add_positional("file", options.file, "safetensors file", true);
  if (!flags.read(arguments, options)) return 0;
  require_said("import", "model", options.model);
  require_said("import", "train-dir", options.train_dir);
  const Imported imported = import_weights(options);
  fmt::print("{} parameters in {}\n", imported.parameters, options.train_dir);
  if (!imported.unused.empty()) {
    fmt::print("{}\n", unused_text(imported.unused));
  }
  return 0;
}

}  // namespace sotto
