#include <fmt/format.h>

#include <algorithm>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "sotto/aggregate/presets.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/codec/contract.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"
#include "sotto/optim/optimiser.h"

namespace sotto {
namespace {

constexpr std::string_view own_name = "codec describe";

// Gives sizes for one matrix.
const Layout& example() {
  static const Layout layout({{"example", 0, {1000, 1000}}}, 1000000);
  return layout;
}

std::string example_bytes(std::size_t bytes) {
  return fmt::format("{} for a segment of {} floats, {:.4g} bit an element", bytes,
                     fmt::join(example().segments().front().shape, " x "),
                     8.0 * static_cast<double>(bytes) / static_cast<double>(example().size()));
}

std::string heading(std::string_view name, std::string_view kind, std::string_view summary, std::string_view paper) {
  const std::string text = fmt::format("{} ({}): {}\n", name, kind, summary);
  return paper.empty() ? text : text + fmt::format("  paper      {}\n", paper);
}

// `more`: lines between the heading and the options.
template <class Entry>
std::string entry_text(const Entry& entry, std::string_view kind, std::string_view more = "") {
  const std::string options = help_options(entry.options());
  return fmt::format("{}{}{}{}", heading(entry.name, kind, entry.summary, entry.paper), more,
                     options.empty() ? "" : "options\n", options);
}

std::string stage_text(const StageEntry& stage) {
  return entry_text(stage, name_of(stage.kind), fmt::format("  wire       {}\n", stage.bytes));
}

// Describes what a flag of its kind asks for.
template <class Entry>
std::string flag_text(const Entry& entry, std::string_view kind) {
  return entry_text(entry, kind, fmt::format("  asked for  --{} {}, in addition to the codec\n", kind, entry.name));
}

// Describes a recipe that is a codec, with or without a memory.
std::string contract_lines(const Recipe& recipe) {
  const auto codec = make_codec(recipe.stages);
  const std::size_t bytes = codec->max_bytes(example(), {0, example().size()});
  const std::string whose = recipe.memory ? fmt::format("after `{}`: ", recipe.memory.entry->name) : "";
  return fmt::format("  codec      {}\n  contract   {}{}\n  bytes      at most {}\n", recipe.text(), whose,
                     describe(codec->contract(example())), example_bytes(bytes));
}

// Describes a recipe in which an aggregator takes the place of a codec.
std::string method_text(const Recipe& recipe) {
  const AggregatorEntry& entry = *recipe.aggregator.entry;
  std::string text = fmt::format("  codec      {}\n  contract   {}\n  wire       {}\n", recipe.text(),
                                 entry.method->contract, entry.method->bytes);
  if (entry.method->bytes_of != nullptr) {
    const auto codec = make_codec(recipe.stages);
    text += fmt::format("  bytes      {}\n",
                        example_bytes(entry.method->bytes_of(recipe.aggregator.options, *codec, example())));
  }
  return entry_text(entry, "aggregator", text);
}

std::string preset_text(const Preset& preset, const Recipe& recipe) {
  std::string text = heading(preset.name, "preset", preset.summary, preset.paper);
  text += fmt::format("  means      {}\n", text_of(preset));
  text += fmt::format("  aggregator {}\n", recipe.by_itself()            ? "chosen by the codec"
                                           : preset.aggregator == "auto" ? "auto, or another"
                                                                         : preset.aggregator);
  text += fmt::format("  optimiser  {}\n", preset.optimiser == "auto" ? "sgd, or another" : preset.optimiser);
  if (!preset.pitfalls.empty()) text += fmt::format("  pitfalls   {}\n", preset.pitfalls);
  if (recipe.by_itself()) return text;
  for (const StageSpec& stage : recipe.stages) {
    text += fmt::format("  wire       {}: {}\n", stage.entry->name, stage.entry->bytes);
  }
  return text + contract_lines(recipe);
}

Recipe read(std::string_view text) { return read_recipe(parse_expression(own_name, text)); }

// Describes every component of this name.
std::vector<std::string> texts_of_name(std::string_view name) {
  std::vector<std::string> texts;
  if (const MemoryEntry* memory = memory_table().find(name)) texts.push_back(entry_text(*memory, "memory"));
  if (const Preset* preset = preset_table().find(name)) {
    const Recipe recipe = read(name);
    texts.push_back(preset_text(*preset, recipe));
    if (recipe.by_itself()) texts.push_back(method_text(recipe));
  }
  if (const StageEntry* stage = stage_table().find(name)) {
    const std::string called =
        stage->example.empty() ? stage->name.data() + std::string("()") : std::string(stage->example);
    texts.push_back(stage_text(*stage) + contract_lines(read(called)));
  }
  const AggregatorEntry* aggregator = aggregator_table().find(name);
  if (aggregator != nullptr && aggregator->method == nullptr) texts.push_back(flag_text(*aggregator, "aggregator"));
  if (const OptimiserEntry* optimiser = optimiser_table().find(name))
    texts.push_back(flag_text(*optimiser, "optimiser"));
  return texts;
}

// The error for a single word that is in no table. The nearest name may be in any table.
void require_known(const Expression& expression) {
  const Call& call = expression.calls.front();
  if (text_of(expression, call) != expression.text) return;
  std::vector<std::string_view> known;
  const auto add = [&](const auto& table) {
    for (const auto& entry : table) {
      if (std::ranges::find(known, entry.name) == known.end()) known.push_back(entry.name);
    }
  };
  const auto add_all = [&](const auto&... tables) { (add(tables), ...); };
  add_all(preset_table(), memory_table(), aggregator_table(), stage_table(), optimiser_table());
  if (std::ranges::find(known, call.name) != known.end()) return;
  fail_at(expression, call, call.position, unknown_name("name", call.name, known));
}

std::vector<std::string> texts_of_codec(std::string_view text) {
  const Expression expression = parse_expression(own_name, text);
  require_known(expression);
  const Recipe recipe = read_recipe(expression);
  std::vector<std::string> texts;
  if (recipe.memory) texts.push_back(entry_text(*recipe.memory.entry, "memory"));
  if (!recipe.by_itself()) {
    for (const StageSpec& stage : recipe.stages) texts.push_back(stage_text(*stage.entry));
  }
  texts.push_back(recipe.by_itself() ? method_text(recipe) : contract_lines(recipe));
  return texts;
}

}  // namespace

int describe_codec(std::span<const std::string> arguments) {
  std::string text;
  Flags flags("codec describe", "Describes a preset, memory, aggregator, stage or optimiser, or a whole codec.", "");
  flags.add_positional("codec", text, "a name from `sotto codec list`, or a codec in quotes", true);
  if (!flags.parse(arguments)) return 0;
  auto texts = texts_of_name(text);
  if (texts.empty()) texts = texts_of_codec(text);
  fmt::print("{}", fmt::join(texts, "\n"));
  return 0;
}

}  // namespace sotto
