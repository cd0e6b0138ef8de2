#include "sotto/train/optimiser.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/optim/optimiser.h"
#include "sotto/task/table.h"

namespace sotto {
namespace {

// The sentence of --optimiser, or of a preset, or of the algorithm.
Sentence sentence_of(const TrainOptions& options) {
  std::string chosen = choose_optimiser(recipe_of(options), options.optimiser);
  if (chosen == "auto") chosen = algorithm_entry("algorithm", options.algorithm).optimiser;
  return parse_sentence("optimiser", chosen == "auto" ? "sgd" : chosen);
}

// A flag that stands for an option of the optimiser; one that an optimiser may be without means something by itself.
struct Shorthand {
  std::string_view flag;
  std::string_view option;
  std::string value;
  bool given;
  bool needed = true;
};

std::array<Shorthand, 4> shorthands(const TrainOptions& options) {
  return {{{"momentum", "momentum", format_double(options.momentum), options.momentum != -1},
           {"nesterov", "nesterov", "true", options.nesterov},
           {"weight-decay", "weight-decay", format_double(options.weight_decay), options.weight_decay != -1},
           {"codec-start-after", "warmup", std::to_string(options.codec_start_after), options.codec_start_after != -1,
            false}}};
}

void require_or_own(std::string_view flag, double value) {
  if (value >= 0 || value == -1) return;
  throw ConfigError(fmt::format("--{} {}: must be 0 or more, or -1 for the default", flag, format_double(value)));
}

bool has(const OptimiserEntry& entry, std::string_view option) {
  return std::ranges::count(entry.options(), option) > 0;
}

// Whether the call itself gives this option, by name or by its place.
bool says(const OptimiserEntry& entry, const Call& call, std::string_view option) {
  const auto names = entry.options();
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const Argument& argument = call.arguments[i];
    if (argument.key.empty() ? i < names.size() && names[i] == option : argument.key == option) return true;
  }
  return false;
}

// Of a sentence that names every option.
double momentum_in(const std::string& sentence) {
  const Sentence parsed = parse_sentence("optimiser", sentence);
  for (const Argument& argument : parsed.calls.front().arguments) {
    if (argument.key == "momentum" || argument.key == "beta1") return parse_double(argument.key, argument.value);
  }
  return 0;
}

}  // namespace

ChosenOptimiser chosen_optimiser(const TrainOptions& options) {
  const ModelDefaults model = task_entry("task", options.task).defaults(options.model);
  const Sentence sentence = sentence_of(options);
  const OptimiserEntry& entry = optimiser_entry(sentence);
  const Call& call = sentence.calls.front();
  require_or_own("momentum", options.momentum);
  require_or_own("weight-decay", options.weight_decay);
  entry.canonical(sentence, call);  // an error of the sentence itself shows the sentence as it was written
  std::vector<std::string> arguments;
  for (const Argument& argument : call.arguments) {
    arguments.push_back(argument.key.empty() ? argument.value : argument.key + "=" + argument.value);
  }
  for (const Shorthand& flag : shorthands(options)) {
    if (!flag.given) continue;
    const auto fail = [&](const std::string& why) {
      throw ConfigError(fmt::format("--{}{}: {}", flag.flag, flag.value == "true" ? "" : " " + flag.value, why));
    };
    if (!has(entry, flag.option)) {
      if (!flag.needed) continue;
      fail(fmt::format("the optimiser `{}` has no {}; it has {}", call.name, flag.option,
                       fmt::join(entry.options(), ", ")));
    }
    if (says(entry, call, flag.option)) {
      fail(fmt::format("the optimiser `{}` says it, too; leave one of them out", text_of(sentence, call)));
    }
    arguments.push_back(fmt::format("{}={}", flag.option, flag.value));
  }
  const std::string made = momentum_of(recipe_of(options));
  if (options.nesterov && !made.empty()) {
    throw ConfigError(fmt::format("--nesterov: `{}` makes the momentum; write momentum(nesterov=true) there", made));
  }
  const bool open = has(entry, "momentum") && !says(entry, call, "momentum");
  const double momentum = options.momentum != -1 ? options.momentum : made.empty() ? model.momentum : 0;
  if (options.nesterov && open && momentum == 0) throw ConfigError("--nesterov: needs --momentum above 0");
  if (options.momentum == -1 && open) arguments.push_back("momentum=" + format_double(momentum));
  const std::string chosen =
      arguments.empty() ? call.name : fmt::format("{}({})", call.name, fmt::join(arguments, ", "));
  ChosenOptimiser result{canonical_optimiser("optimiser", chosen), options.lr};
  if (result.lr == 0) result.lr = entry.default_lr != 0 ? entry.default_lr : model.lr;
  if (options.lr_scale) {
    const auto ranks = static_cast<int>(options.ranks);
    const int trained = ranks - idle_ranks("algorithm", options.algorithm, ranks);
    result.lr *= static_cast<double>(options.batch_size * options.accumulate * trained) / 256;
  }
  if (!made.empty() && momentum_in(result.sentence) > 0) {
    throw ConfigError(
        fmt::format("--codec {}: `{}` makes the momentum before gradients are sent, and `{}` would apply another; say "
                    "--momentum 0, or nothing, and for Adam `ef` in place of it",
                    options.codec, made, result.sentence));
  }
  return result;
}

std::string lasting_options(const ChosenOptimiser& optimiser) {
  const Sentence sentence = parse_sentence("optimiser", optimiser.sentence);
  const Call& call = sentence.calls.front();
  std::vector<std::string> lasting;
  for (const Argument& argument : call.arguments) {
    if (argument.key != "weight-decay") lasting.push_back(argument.key + "=" + argument.value);
  }
  return lasting.empty() ? call.name : fmt::format("{}({})", call.name, fmt::join(lasting, ", "));
}

std::string optimiser_list() {
  std::string text = "\nOptimisers:\n";
  for (const OptimiserEntry& entry : optimiser_table()) {
    text += fmt::format("  {:<12} {}; {}{}\n", entry.name, entry.summary, fmt::join(entry.options(), ", "),
                        entry.default_lr == 0 ? "" : fmt::format("; lr {}", entry.default_lr));
  }
  return text;
}

}  // namespace sotto
