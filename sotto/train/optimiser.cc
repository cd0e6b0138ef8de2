#include "sotto/train/optimiser.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

// An option of the run that stands for one of the optimiser's options. If it is not `needed`, it also has a meaning for
// an optimiser without that option.
struct Shorthand {
  std::string_view option;
  std::string_view own;
  std::string value;  // empty: not set
  bool needed = true;
};

std::array<Shorthand, 4> shorthands(const TrainOptions& options) {
  const auto text = [](const auto& option) { return option ? format_optional(option) : ""; };
  return {{{"momentum", "momentum", text(options.momentum)},
           {"nesterov", "nesterov", options.nesterov ? "true" : ""},
           {"weight-decay", "weight-decay", text(options.weight_decay)},
           {"codec-start-after", "warmup", text(options.codec_start_after), false}}};
}

// What a user wrote for an optimiser: which options, and which values.
struct Said {
  Sentence sentence;
  std::vector<std::string> known;  // all options of this optimiser

  const Call& call() const { return sentence.calls.front(); }
  bool has(std::string_view option) const { return std::ranges::count(known, option) > 0; }
  // Whether the call itself gives this option, by name or by position.
  bool gives(std::string_view option) const {
    const auto& arguments = call().arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].key.empty() ? i < known.size() && known[i] == option : arguments[i].key == option) return true;
    }
    return false;
  }
};

Said said_by(const TrainOptions& options, const Recipe& recipe, const AlgorithmSpec& algorithm,
             std::string_view usual) {
  std::string chosen = choose_optimiser(recipe, options.optimiser);
  if (chosen == "auto") chosen = algorithm.entry->optimiser;
  Said said{parse_sentence("optimiser", chosen == "auto" ? usual : chosen), {}};
  // An error in the sentence itself quotes it as written.
  said.known = names_of_options(optimiser_table().read(said.sentence).options);
  return said;
}

// The call, completed with the values of other options of the run.
std::string completed(const Said& said, const TrainOptions& options, double model_momentum, const std::string& made) {
  const Call& call = said.call();
  std::vector<std::string> arguments;
  for (const Argument& argument : call.arguments) {
    arguments.push_back(argument.key.empty() ? argument.value : argument.key + "=" + argument.value);
  }
  for (const Shorthand& shorthand : shorthands(options)) {
    if (shorthand.value.empty()) continue;
    const auto fail = [&](const std::string& why) {
      const std::string_view value = shorthand.value == "true" ? "" : std::string_view(shorthand.value);
      throw ConfigError(fmt::format("{}: {}", named(shorthand.option, value), why));
    };
    if (!said.has(shorthand.own)) {
      if (!shorthand.needed) continue;
      fail(fmt::format("the optimiser `{}` has no {}; it has {}", call.name, shorthand.own,
                       fmt::join(said.known, ", ")));
    }
    if (said.gives(shorthand.own)) {
      fail(fmt::format("the optimiser `{}` says it, too; leave one of them out", text_of(said.sentence, call)));
    }
    arguments.push_back(fmt::format("{}={}", shorthand.own, shorthand.value));
  }
  if (options.nesterov && !made.empty()) {
    throw ConfigError(
        fmt::format("{}: `{}` makes the momentum; write momentum(nesterov=true) there", named("nesterov"), made));
  }
  const bool open = said.has("momentum") && !said.gives("momentum");
  const double momentum = options.momentum.value_or(made.empty() ? model_momentum : 0);
  if (options.nesterov && open && momentum == 0) {
    throw ConfigError(fmt::format("{}: needs {} above 0", named("nesterov"), named("momentum")));
  }
  if (!options.momentum && open) arguments.push_back("momentum=" + format_double(momentum));
  return arguments.empty() ? call.name : fmt::format("{}({})", call.name, fmt::join(arguments, ", "));
}

double momentum_of(const OptimiserSpec& spec) {
  return number_of(spec.options, "momentum").value_or(number_of(spec.options, "beta1").value_or(0));
}

}  // namespace

ChosenOptimiser read_optimiser(const TrainOptions& options, const Recipe& recipe, const ModelDefaults& model,
                               const AlgorithmSpec& algorithm) {
  const std::string made = momentum_of(recipe);
  const Said said = said_by(options, recipe, algorithm, model.optimiser);
  ChosenOptimiser result;
  result.spec = optimiser_table().read("optimiser", completed(said, options, model.momentum, made));
  const OptimiserEntry& entry = *result.spec.entry;
  const bool usual = entry.default_lr == 0 || entry.name == model.optimiser;
  result.lr = options.lr.value_or(usual ? model.lr : entry.default_lr);
  if (options.lr_scale) {
    const auto ranks = static_cast<int>(options.ranks);
    const int trained = ranks - idle_ranks(algorithm, ranks);
    result.lr *= static_cast<double>(options.batch_size * options.accumulate * trained) / 256;
  }
  if (!made.empty() && momentum_of(result.spec) > 0) {
    throw ConfigError(
        fmt::format("{}: `{}` makes the momentum before gradients are sent, and `{}` would apply another; say {}, or "
                    "nothing, and for Adam `ef` in place of it",
                    named("codec", options.codec), made, result.spec.text(), named("momentum", "0")));
  }
  return result;
}

}  // namespace sotto
