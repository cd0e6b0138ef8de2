#include "app/train/options/optimiser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sotto/aggregate/presets.h"
#include "sotto/optim/loss_scale.h"

namespace sotto {
namespace {

// An option of the run that stands for one of the optimiser's options. Unless it is `needed`, it is also of use with an
// optimiser that lacks that option.
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

// Whether a call gives this option, by name or by position among the `known` ones.
bool gives(const Call& call, std::span<const std::string> known, std::string_view option) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const std::string& key = call.arguments[i].key;
    if (key.empty() ? i < known.size() && known[i] == option : key == option) return true;
  }
  return false;
}

// The optimiser, with the values of other options of the run. `made` names the stage that makes the momentum in place
// of the optimiser; empty: none does.
OptimiserSpec read_spec(const TrainOptions& options, std::string_view chosen, double model_momentum,
                        const std::string& made) {
  const Expression expression = parse_expression("optimiser", chosen);
  OptimiserSpec spec = optimiser_table().read(expression);
  const Call& call = expression.calls.front();
  const std::vector<std::string> known = names_of_options(spec.options);
  const auto has = [&](std::string_view option) { return std::ranges::count(known, option) > 0; };
  Call more{call.name, {}, call.position};
  const auto add = [&](std::string_view option, const std::string& value) {
    more.arguments.push_back({std::string(option), value, call.position, call.position});
  };
  for (const Shorthand& shorthand : shorthands(options)) {
    if (shorthand.value.empty()) continue;
    const auto fail = [&](const std::string& why) {
      const std::string_view value = shorthand.value == "true" ? "" : std::string_view(shorthand.value);
      throw ConfigError(fmt::format("{}: {}", named(shorthand.option, value), why));
    };
    if (!has(shorthand.own)) {
      if (!shorthand.needed) continue;
      fail(fmt::format("the optimiser `{}` has no {}; it has {}", call.name, shorthand.own, fmt::join(known, ", ")));
    }
    if (gives(call, known, shorthand.own)) {
      fail(fmt::format("the optimiser `{}` says it, too; leave one of them out", text_of(expression, call)));
    }
    add(shorthand.own, shorthand.value);
  }
  if (options.nesterov && !made.empty()) {
    throw ConfigError(fmt::format("{}: `{}` makes the momentum; write momentum(nesterov=true) there{}",
                                  named("nesterov"), made,
                                  call.name == "dgc" ? ", and dgc(nesterov=true) for weight decay" : ""));
  }
  const bool open = has("momentum") && !gives(call, known, "momentum");
  const double momentum = options.momentum.value_or(made.empty() ? model_momentum : 0);
  if (options.nesterov && open && momentum == 0) {
    throw ConfigError(fmt::format("{}: needs {} above 0", named("nesterov"), named("momentum")));
  }
  if (!options.momentum && open) add("momentum", format_double(momentum));
  spec.options = read_options(expression, more, std::move(spec.options));
  return spec;
}

// ConfigError for clipping after the exchange if the run has no mean gradient to clip.
ClipSpec read_clip(const std::optional<std::string>& text, const std::string& made, const OptimiserSpec& optimiser,
                   const AlgorithmSpec& algorithm) {
  if (!text) return {};
  ClipSpec spec = clip_table().read("clip", *text);
  if (!clips(spec, "after")) return spec;
  const auto fail = [&](const std::string& why) {
    fail_at(spec.place, fmt::format("{}; clip each rank's gradient: when=before", why));
  };
  const AlgorithmEntry& entry = *algorithm.entry;
  if (!entry.traits.replicated)
    fail(fmt::format("ranks of `{}` step along their own gradients, and there is no mean", entry.name));
  if (spec.entry->whole && !entry.with(algorithm.options).whole_mean) {
    fail(fmt::format("`{}` makes steps of parts of the mean, and its norm is known when all of it is",
                     algorithm.source_text()));
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

// Whether the processor has instructions for these types; true if that is not known.
bool computes_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

bool computes_f16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512fp16") != 0;
#else
  return true;
#endif
}

constexpr std::array amp_entries{
    AmpEntry{"none", "floats", Precision::f32, [] { return true; }, [] { return AnyOptions(NoOptions{}); }},
    AmpEntry{"bf16", "bfloat16, with the range of floats", Precision::bf16, computes_bf16,
             [] { return AnyOptions(NoOptions{}); }},
    AmpEntry{"f16", "float16, with a scale of the loss; steps that overflow are left out", Precision::f16, computes_f16,
             [] { return AnyOptions(LossScaleOptions{}); }},
};
constexpr Table<AmpEntry> amp_lines("precision", amp_entries);

}  // namespace

ChosenOptimiser read_optimiser(const TrainOptions& options, const Recipe& recipe, const ModelDefaults& model,
                               const AlgorithmSpec& algorithm) {
  const std::string made = momentum_of(recipe);
  std::string chosen = choose_optimiser(recipe, options.optimiser);
  if (chosen == "auto") chosen = algorithm.entry->optimiser;
  if (chosen == "auto") chosen = model.optimiser;
  ChosenOptimiser result;
  result.spec = read_spec(options, chosen, model.momentum, made);
  const OptimiserEntry& entry = *result.spec.entry;
  const bool usual = entry.default_lr == 0 || entry.name == model.optimiser;
  result.lr = options.lr.value_or((usual ? model.lr : entry.default_lr) * rate_with(recipe.preset));
  if (options.lr_scale) {
    const auto ranks = static_cast<int>(options.ranks);
    const int trained = ranks - idle_ranks(algorithm, ranks);
    result.lr *= static_cast<double>(options.batch_size * options.accumulate * trained) / 256;
  }
  if (options.group) result.groups = read_groups("group", *options.group, result.spec);
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

const Table<AmpEntry>& amp_table() { return amp_lines; }

void check_amp(const AmpSpec& amp, const AlgorithmSpec& algorithm, const ChosenOptimiser& optimiser) {
  if (!scales_loss(amp)) return;
  const auto fail = [&](std::string_view who, std::string_view why) {
    fail_at(amp.place, fmt::format("`{}` {}, and a step that overflows must be left out; use bf16", who, why));
  };
  if (algorithm.entry->traits.steps_elsewhere) fail(algorithm.entry->name, "has servers that take every step");
  if (make_optimiser(optimiser.spec, Layout())->dense_steps() > 0) {
    fail(optimiser.spec.entry->name, "counts its first steps with the codec");
  }
}

}  // namespace sotto
