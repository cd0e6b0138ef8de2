#include "app/train/folder/weights.h"

#include <fmt/format.h>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

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
  if (value.empty()) throw ConfigError(fmt::format("sotto {}: say --{}", command, option));
}

}  // namespace

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
