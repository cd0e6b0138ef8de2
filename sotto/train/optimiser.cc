#include "sotto/train/optimiser.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/error.h"
#include "sotto/optim/optimiser.h"

namespace sotto {
namespace {

// The sentence of --optimiser or of a preset.
Sentence sentence_of(const TrainOptions& options) {
  const std::string chosen = choose_optimiser("--optimiser", read_method("--codec", options.codec), options.optimiser);
  return parse_sentence("--optimiser", chosen == "auto" ? "sgd" : chosen);
}

// A flag that stands for an option of the optimiser.
struct Shorthand {
  std::string_view option;
  std::string value;
  bool given;
};

std::array<Shorthand, 3> shorthands(const TrainOptions& options) {
  return {{{"momentum", format_double(options.momentum), options.momentum != -1},
           {"nesterov", "true", options.nesterov},
           {"weight-decay", format_double(options.weight_decay), options.weight_decay != 0}}};
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
  const Sentence parsed = parse_sentence("--optimiser", sentence);
  for (const Argument& argument : parsed.calls.front().arguments) {
    if (argument.key == "momentum" || argument.key == "beta1") return parse_double(argument.key, argument.value);
  }
  return 0;
}

}  // namespace

std::string optimiser_of(const TrainOptions& options) {
  const Sentence sentence = sentence_of(options);
  const OptimiserEntry& entry = optimiser_entry(sentence);
  const Call& call = sentence.calls.front();
  std::vector<std::string> arguments;
  for (const Argument& argument : call.arguments) {
    arguments.push_back(argument.key.empty() ? argument.value : argument.key + "=" + argument.value);
  }
  const bool alone = arguments.empty();
  for (const Shorthand& flag : shorthands(options)) {
    if (!flag.given) continue;
    const auto fail = [&](const std::string& why) {
      throw ConfigError(fmt::format("--{}{}: {}", flag.option, flag.value == "true" ? "" : " " + flag.value, why));
    };
    if (!has(entry, flag.option)) {
      fail(fmt::format("the optimiser `{}` has no {}; it has {}", call.name, flag.option,
                       fmt::join(entry.options(), ", ")));
    }
    if (says(entry, call, flag.option)) {
      fail(fmt::format("the optimiser `{}` says it, too; leave one of them out", text_of(sentence, call)));
    }
    arguments.push_back(fmt::format("{}={}", flag.option, flag.value));
  }
  if (alone && arguments.empty()) return canonical_optimiser("--optimiser", call.name);
  entry.canonical(sentence, call);  // an error of the sentence itself shows the sentence as it was written
  return canonical_optimiser("--optimiser", fmt::format("{}({})", call.name, fmt::join(arguments, ", ")));
}

void resolve_optimiser(TrainOptions& options, double model_lr, double model_momentum) {
  const Sentence sentence = sentence_of(options);
  const OptimiserEntry& entry = optimiser_entry(sentence);
  if (options.lr == 0) options.lr = entry.default_lr != 0 ? entry.default_lr : model_lr;
  if (options.momentum < 0 && options.momentum != -1) {
    throw ConfigError("--momentum " + format_double(options.momentum) +
                      ": must be in [0, 1), or -1 for the model's own");
  }
  const std::string made = momentum_of("--codec", read_method("--codec", options.codec));
  const bool open = has(entry, "momentum") && !says(entry, sentence.calls.front(), "momentum");
  if (options.momentum == -1 && open) options.momentum = made.empty() ? model_momentum : 0;
  if (options.nesterov && !made.empty()) {
    throw ConfigError(fmt::format("--nesterov: `{}` makes the momentum; write momentum(nesterov=true) there", made));
  }
  if (options.nesterov && options.momentum == 0) throw ConfigError("--nesterov: needs --momentum above 0");
  const std::string resolved = optimiser_of(options);
  if (!made.empty() && momentum_in(resolved) > 0) {
    throw ConfigError(
        fmt::format("--codec {}: `{}` makes the momentum before gradients are sent, and `{}` would apply another; say "
                    "--momentum 0, or nothing, and for Adam `ef` in place of it",
                    options.codec, made, resolved));
  }
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
