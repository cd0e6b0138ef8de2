#include "sotto/aggregate/recipe.h"

#include <fmt/format.h>

#include "sotto/aggregate/auto_codec.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/memory/momentum.h"
#include "sotto/aggregate/presets.h"
#include "sotto/codec/selection.h"

namespace sotto {
namespace {

bool is_memory(const Call& call) { return memory_table().find(call.name) != nullptr; }

// Whether the call is an aggregator that users write in `codec`.
bool is_method(const Call& call) {
  const AggregatorEntry* entry = aggregator_table().find(call.name);
  return entry != nullptr && entry->method != nullptr;
}

const Preset* preset_of(const Expression& expression) {
  if (expression.calls.size() != 1) return nullptr;
  const Call& call = expression.calls.front();
  return text_of(expression, call) == call.name ? preset_table().find(call.name) : nullptr;
}

// What to write in place of a preset: "momentum | sampled_topk(0.1%), with the optimiser `dgc`".
std::string in_full(const Preset& preset) {
  std::string text = text_of(preset);
  if (preset.aggregator != "auto") text += fmt::format(", with the aggregator `{}`", preset.aggregator);
  if (preset.optimiser != "auto") {
    text += fmt::format("{} the optimiser `{}`", preset.aggregator == "auto" ? ", with" : " and", preset.optimiser);
  }
  return text;
}

// A preset must be the whole codec.
void check_no_preset(const Expression& expression, const Call& call) {
  const Preset* preset = preset_table().find(call.name);
  if (preset == nullptr) return;
  fail_at(expression, call, call.position,
          fmt::format("the preset `{}` stands alone{}; write what it stands for: {}", call.name,
                      call.arguments.empty() ? "" : " and takes no options", in_full(*preset)));
}

// The first word may be of four kinds; the error lists them all.
void check_first(const Expression& expression) {
  const Call& call = expression.calls.front();
  if (is_memory(call) || is_method(call) || stage_table().find(call.name) != nullptr) return;
  check_no_preset(expression, call);
  std::vector<std::string_view> known = memory_table().names();
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(known, name) == known.end()) known.push_back(name);
  };
  for (const AggregatorEntry& entry : aggregator_table()) {
    if (entry.method != nullptr) add(entry.name);
  }
  for (const std::string_view name : stage_table().names()) add(name);
  if (expression.calls.size() == 1) {
    for (const std::string_view name : preset_table().names()) add(name);
  }
  fail_at(expression, call, call.position, unknown_name("codec, memory or preset", call.name, known));
}

// Refuses memories, aggregators and presets from call number `first` on.
void check_rest(const Expression& expression, std::size_t first) {
  for (std::size_t i = first; i < expression.calls.size(); ++i) {
    const Call& call = expression.calls[i];
    if (is_memory(call)) {
      fail_at(expression, call, call.position,
              fmt::format("memory `{}` must stand first, and there can be only one", call.name));
    }
    if (is_method(call)) {
      fail_at(expression, call, call.position,
              fmt::format("`{}` takes the place of the stages: only a memory may stand before it", call.name));
    }
    check_no_preset(expression, call);
  }
}

// Checks what follows `call`, an aggregator that stands in place of a codec.
void check_tail(const Expression& expression, const Call& call, const Recipe& recipe) {
  if (!make_codec(recipe.stages)->traits().linear_type) {
    const Call& next = *(&call + 1);
    fail_at(expression, next, next.position,
            fmt::format("what follows `{}` is summed on the way: it must be linear", call.name));
  }
  if (!recipe.aggregator.entry->method->forms && recipe.stages.size() > 1) {
    fail_at(expression, call, call.position,
            fmt::format("what follows `{}` is a cast of what it sums: f32, f16 or bf16", call.name));
  }
}

// Reads a codec that is not the name of a preset.
Recipe read_whole(const Expression& expression) {
  check_first(expression);
  Recipe recipe{.option = expression.option, .source_text = expression.text};
  const auto& calls = expression.calls;
  std::size_t next = 0;
  if (is_memory(calls.front())) recipe.memory = memory_table().read(expression, calls[next++]);
  const Call* method = next < calls.size() && is_method(calls[next]) ? &calls[next++] : nullptr;
  check_rest(expression, next);
  if (method != nullptr) recipe.aggregator = aggregator_table().read(expression, *method);
  recipe.stages = read_stages(expression, next);
  if (method == nullptr) return recipe;
  check_tail(expression, *method, recipe);
  const std::string_view memory = recipe.aggregator.entry->method->memory(recipe.aggregator.options);
  if (!recipe.memory && !memory.empty()) recipe.memory = memory_table().choose(memory);
  return recipe;
}

// Applies the aggregator that another option asks for.
void take_aggregator(Recipe& recipe, const Expression& asked) {
  const auto fail = [&](const std::string& why) { throw ConfigError(named(asked.option, asked.text) + ": " + why); };
  if (recipe.by_itself()) {
    if (recipe.aggregator.entry->name == auto_codec_name) {
      AutoCodecOptions options = recipe.aggregator.options.as<AutoCodecOptions>();
      options.carrier = read_aggregator(asked);
      recipe.aggregator.options = std::move(options);
      return;
    }
    if (asked.text == recipe.aggregator.text()) return;
    fail(fmt::format("`{}` of the codec is an aggregator itself; leave one of them out", recipe.aggregator.text()));
  }
  const AggregatorSpec spec = read_aggregator(asked);
  if (recipe.aggregator && recipe.aggregator.text() != spec.text()) {
    fail(
        fmt::format("the preset `{}` is tied to the aggregator `{}`; leave it out, or write the codec of the preset "
                    "in full",
                    recipe.preset, recipe.aggregator.text()));
  }
  recipe.aggregator = spec;
}

// The parts of an aggregator. Their memory is made for no buckets, so that nothing has the size of the buckets.
// ConfigError if the aggregator cannot be used with them.
AggregatorParts parts_of(const Recipe& recipe, std::vector<BucketPlan> buckets, std::shared_ptr<ThreadPool> pool) {
  AggregatorParts parts;
  parts.memory = make_memory(recipe.memory, {});
  parts.memory_spec = recipe.memory;
  parts.codec = make_codec(recipe.stages, pool);
  parts.pool = std::move(pool);
  parts.buckets = std::move(buckets);
  const std::string reason = why_not(recipe.aggregator, parts);
  if (reason.empty()) return parts;
  if (recipe.by_itself()) fail_at(recipe.aggregator.place, reason);
  if (!recipe.aggregator) throw ConfigError(named(recipe.option, recipe.source_text) + ": " + reason);
  const Place& asked = recipe.aggregator.place;
  throw ConfigError(named(recipe.option) + " with " +
                    named(asked.option.empty() ? "aggregator" : asked.option, recipe.aggregator.entry->name) + ": " +
                    reason);
}

// Whether the recipe compresses only segments that have more dimensions than the segments of these buckets, or are
// longer.
bool sends_all_whole(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  const auto all_are = [&](const auto& whole) {
    return !buckets.empty() && std::ranges::all_of(buckets, [&](const BucketPlan& bucket) {
      return std::ranges::all_of(bucket.layout.segments(), whole);
    });
  };
  if (recipe.by_itself()) {
    return recipe.aggregator.entry->method->matrices &&
           all_are([](const Segment& segment) { return segment.shape.size() < 2; });
  }
  return std::ranges::any_of(recipe.stages, [&](const StageSpec& stage) {
    if (stage.entry->kind != StageKind::select) return false;
    const Selection selection(std::get<std::unique_ptr<Select>>(stage.entry->make(stage.options)));
    return all_are([&](const Segment& segment) { return selection.is_dense(segment); });
  });
}

}  // namespace

std::string Recipe::text() const {
  std::string text = memory.text();
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : " | ") + part; };
  if (by_itself()) append(aggregator.text());
  const std::string codec = stages.empty() ? "f32" : text_of(stages);
  if (!by_itself() || codec != "f32") append(codec);
  return text;
}

AggregatorSpec read_aggregator(const Expression& expression) {
  const Call& call = expression.calls.front();
  if (text_of(expression, call) == "auto") return {};
  if (expression.calls.size() > 1)
    fail_at(expression, call, expression.calls[1].position, "an aggregator is a single call");
  const AggregatorEntry* entry = aggregator_table().find(call.name);
  if (entry == nullptr) {
    throw ConfigError(named(expression.option, call.name) + ": " + unknown_aggregator(call.name, /*simple=*/false));
  }
  if (entry->method != nullptr) {
    throw ConfigError(named(expression.option, call.name) + ": it is a method itself; write it in " + named("codec"));
  }
  return aggregator_table().read(expression, call);
}

Recipe read_recipe(const Expression& method, const Expression* aggregator) {
  const Preset* preset = preset_of(method);
  Recipe recipe = read_whole(preset == nullptr ? method : parse_expression(method.option, text_of(*preset)));
  if (preset != nullptr) {
    recipe.source_text = preset->name;
    recipe.preset = preset->name;
    recipe.optimiser = preset->optimiser;
    if (preset->aggregator != "auto") recipe.aggregator = aggregator_table().choose(preset->aggregator);
  }
  if (aggregator != nullptr && read_aggregator(*aggregator)) take_aggregator(recipe, *aggregator);
  return recipe;
}

Recipe read_recipe(std::string_view method, std::string_view aggregator) {
  const Expression asked = parse_expression("aggregator", aggregator);
  return read_recipe(parse_expression("codec", method), &asked);
}

std::string text_of(const AggregatorSpec& aggregator) { return aggregator ? aggregator.text() : "auto"; }

std::string warning_about(const Recipe& recipe, std::span<const BucketPlan> buckets, const Spelling& spelling) {
  const std::string said = spelling(recipe.option, recipe.source_text);
  if (sends_all_whole(recipe, buckets)) {
    return fmt::format(
        "{}: nothing is compressed, because all tensors here have one dimension, and {}", said,
        recipe.by_itself() ? "it compresses matrices" : "it sends these whole; with dense=0 it compresses them, too");
  }
  if (recipe.by_itself()) return "";
  const auto codec = make_codec(recipe.stages);
  double worst = 0, least = 1;
  bool exact = true;
  for (const BucketPlan& plan : buckets) {
    const Contract contract = codec->contract(plan.layout);
    exact = exact && contract.kind == Contract::Kind::exact;
    if (contract.kind == Contract::Kind::unbiased) worst = std::max(worst, contract.omega);
    if (contract.kind == Contract::Kind::contraction && !contract.signs) least = std::min(least, contract.delta);
  }
  const bool holds = recipe.memory && recipe.memory.entry->holds;
  if (holds && exact) {
    return fmt::format("{}: all is sent, so `{}` holds nothing back; say what to send, in quotes: \"{} | topk(0.01)\"",
                       said, recipe.memory.entry->name, recipe.memory.entry->name);
  }
  if (holds && worst >= 1) {
    return fmt::format(
        "{}: unbiased, with a variance of up to {:.3g} |x|^2: from 1 on, what `{}` holds back may grow without bound; "
        "use a contraction (unbiased=false where there is one), a larger share or more bits, `velocity`, or no memory",
        said, worst, recipe.memory.entry->name);
  }
  const auto selects = [](const StageSpec& stage) { return stage.entry->kind == StageKind::select; };
  if (!recipe.memory && worst >= 1 && std::ranges::any_of(recipe.stages, selects)) {
    return fmt::format(
        "{}: unbiased, with a variance of up to {:.3g} |x|^2, which a momentum after it adds up; `velocity` makes the "
        "momentum before it, and the optimiser then has none: velocity | {}",
        said, worst, recipe.preset.empty() ? recipe.source_text : text_of(recipe.stages));
  }
  if (!holds && least < 0.5) {
    const std::string later = recipe.memory ? "momentum | " + text_of(recipe.stages) : "ef | " + recipe.source_text;
    return fmt::format("{}: what it leaves out, up to {:.3g} of |x|^2, is lost; a memory sends it later: {}", said,
                       1 - least, later);
  }
  return "";
}

bool ignores_zeros(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  if (recipe.by_itself() && !recipe.aggregator.entry->method->joins_late) return false;
  if (is_momentum_of_mean(recipe.memory)) return false;  // a rank without the others' momentum would step elsewhere
  const auto codec = make_codec(recipe.stages);
  return std::ranges::none_of(buckets, [&](const BucketPlan& plan) {
    return !codec->contract(plan.layout).keeps_zeros || codec->agreed_count(plan.layout) > 0;
  });
}

std::string momentum_of(const Recipe& recipe) {
  if (recipe.memory && recipe.memory.entry->momentum) return recipe.memory.source_text();
  return recipe.by_itself() && recipe.aggregator.entry->method->momentum ? recipe.aggregator.source_text() : "";
}

std::string held_by(const Recipe& recipe) {
  if (recipe.memory) return std::string(recipe.memory.entry->name);
  if (!recipe.by_itself() || !recipe.aggregator.entry->method->holds) return "";
  return std::string(recipe.aggregator.entry->name) + " of " + text_of(recipe.stages);
}

Recipe without_codec(const Recipe& recipe) {
  Recipe dense{.option = recipe.option, .memory = dense_memory(recipe.memory)};
  dense.source_text = recipe.memory ? dense.memory.source_text() + " | f32" : "none";
  dense.aggregator = dense_aggregator(recipe.aggregator);
  return dense;
}

std::string choose_optimiser(const Recipe& recipe, std::string_view asked) {
  if (asked == "auto" || recipe.optimiser == "auto") return std::string(asked == "auto" ? recipe.optimiser : asked);
  const auto name = [](std::string_view text) { return parse_expression("optimiser", text).calls.front().name; };
  if (name(asked) == name(recipe.optimiser)) return std::string(asked);
  throw ConfigError(fmt::format(
      "{}: the preset `{}` is tied to the optimiser `{}`; leave it out, or write the codec of the preset in full",
      named("optimiser", asked), recipe.preset, recipe.optimiser));
}

std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets,
                                            const Communicator& communicator, std::shared_ptr<ThreadPool> pool) {
  return make_aggregator(recipe, std::move(buckets), communicator.rank(), communicator.size(), std::move(pool));
}

std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets, int rank, int ranks,
                                            std::shared_ptr<ThreadPool> pool) {
  AggregatorParts parts = parts_of(recipe, std::move(buckets), std::move(pool));
  parts.memory = make_memory(recipe.memory, {parts.buckets, ranks});
  parts.rank = rank;
  parts.ranks = ranks;
  return make_aggregator(recipe.aggregator, std::move(parts));
}

void check_aggregator(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  parts_of(recipe, {buckets.begin(), buckets.end()}, nullptr);
}

}  // namespace sotto
