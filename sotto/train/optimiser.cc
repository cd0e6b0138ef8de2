#include "sotto/train/optimiser.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/optim/clipped.h"

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

// Clipping after the exchange clips the mean gradient, which not every run has.
ClipSpec read_clip(const std::string& text, const std::string& made, const OptimiserSpec& optimiser,
                   const AlgorithmSpec& algorithm) {
  if (text.empty()) return {};
  ClipSpec spec = clip_table().read("clip", text);
  if (!clips(spec, "after")) return spec;
  const auto fail = [&](const std::string& why) {
    fail_at(spec.place, fmt::format("{}; clip each rank's gradient: when=before", why));
  };
  const AlgorithmEntry& entry = *algorithm.entry;
  if (!entry.replicated)
    fail(fmt::format("ranks of `{}` step along their own gradients, and there is no mean", entry.name));
  if (spec.entry->whole && (entry.whole_mean == nullptr || !entry.whole_mean(algorithm.options))) {
    fail(fmt::format("`{}` makes steps of parts of the mean, and its norm is known when all of it is",
                     algorithm.said()));
  }
  if (!make_optimiser(optimiser, Layout())->offers_gradient()) {
    fail(fmt::format("the optimiser `{}` exchanges no gradients, but what it made of them", optimiser.entry->name));
  }
  if (!made.empty()) fail(fmt::format("`{}` makes momenta of gradients before they are sent", made));
  return spec;
}

Averaging read_averaging(const TrainOptions& options) {
  if (options.average_iterates > 0 && options.ema > 0) {
    throw ConfigError(
        fmt::format("{} and {}: only one mean is kept; say one of them", named("average-iterates"), named("ema")));
  }
  return {.tau = options.average_iterates, .decay = options.ema};
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
  result.groups = read_groups("group", options.group, result.spec);
  std::vector<OptimiserSpec> all{result.spec};
  for (const ParameterGroup& group : result.groups) all.push_back(group.optimiser);
  for (const OptimiserSpec& spec : all) {
    if (made.empty() || momentum_of(spec) == 0) continue;
    throw ConfigError(
        fmt::format("{}: `{}` makes the momentum before gradients are sent, and `{}` would apply another; say {}, or "
                    "nothing, and for Adam `ef` in place of it",
                    named("codec", options.codec), made, spec.text(), named("momentum", "0")));
  }
  result.clip = read_clip(options.clip, made, result.spec, algorithm);
  result.averaging = read_averaging(options);
  return result;
}

std::unique_ptr<Optimiser> make_optimiser(const ChosenOptimiser& chosen, const Layout& layout) {
  auto made = chosen.groups.empty() ? make_optimiser(chosen.spec, layout)
                                    : make_grouped("group", chosen.groups, chosen.spec, layout);
  if (clips(chosen.clip, "after")) made = std::make_unique<Clipped>(std::move(made), chosen.clip, layout.size());
  if (chosen.averaging) made = std::make_unique<Averaged>(std::move(made), chosen.averaging, layout.size());
  return made;
}

}  // namespace sotto
