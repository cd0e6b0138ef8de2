#include "sotto/codec/describe.h"

#include <fmt/format.h>

#include "sotto/codec/contract.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

constexpr std::int64_t example_rows = 1000;
constexpr std::int64_t example_cols = 1000;

std::string contract_lines(std::string_view where, std::string_view sentence) {
  const auto codec = make_codec(where, sentence);
  Layout layout;
  layout.append("example", {example_rows, example_cols});
  const std::size_t bytes = codec->max_bytes(layout, {0, layout.size()});
  return fmt::format(
      "  sentence   {}\n  contract   {}\n  bytes      at most {} for a segment of {} x {} floats, {:.4g} bit an "
      "element\n",
      codec->sentence(), describe(codec->contract(layout)), bytes, example_rows, example_cols,
      8.0 * static_cast<double>(bytes) / static_cast<double>(layout.size()));
}

// Whether it is made of stages; an aggregator may stand in their place.
bool is_codec(std::string_view where, std::string_view sentence) {
  return find_entry(stage_table(), parse_sentence(where, sentence).calls.front().name) != nullptr;
}

std::string stage_text(const StageEntry& stage) {
  std::string text = fmt::format("{} ({}): {}\n", stage.name, name_of(stage.kind), stage.summary);
  if (!stage.paper.empty()) text += fmt::format("  paper      {}\n", stage.paper);
  text += fmt::format("  wire       {}\n", stage.bytes);
  if (const std::string help = stage.help(); !help.empty()) text += fmt::format("options\n{}", help);
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

// What each stage of a codec puts on the wire.
std::string wire_lines(std::string_view where, std::string_view sentence) {
  std::string text;
  for (const Call& call : parse_sentence(where, sentence).calls) {
    if (const StageEntry* stage = find_entry(stage_table(), call.name)) {
      text += fmt::format("  wire       {}: {}\n", stage->name, stage->bytes);
    }
  }
  return text;
}

std::string preset_text(std::string_view where, const Preset& preset) {
  std::string text = fmt::format("{} (preset): {}\n", preset.name, preset.summary);
  if (!preset.paper.empty()) text += fmt::format("  paper      {}\n", preset.paper);
  text += fmt::format("  means      {}\n", sentence_of(preset));
  text += fmt::format("  aggregator {}\n", preset.aggregator == "auto" ? "auto, or another" : preset.aggregator);
  text += fmt::format("  optimiser  {}\n", preset.optimiser == "auto" ? "sgd, or another" : preset.optimiser);
  if (!preset.pitfalls.empty()) text += fmt::format("  pitfalls   {}\n", preset.pitfalls);
  text += wire_lines(where, preset.codec);
  return is_codec(where, preset.codec) ? text + contract_lines(where, preset.codec) : text;
}

}  // namespace

std::string list_stages() {
  std::string text;
  for (const StageEntry& stage : stage_table()) {
    text += fmt::format("{:<10} {:<9} {}\n", stage.name, name_of(stage.kind), stage.summary);
  }
  return text;
}

std::string list_presets() {
  std::string text;
  for (const Preset& preset : preset_table()) {
    text += fmt::format("{:<10} {}: {}\n", preset.name, sentence_of(preset), preset.summary);
  }
  return text;
}

std::string describe_codec(std::string_view where, std::string_view text) {
  std::string result;
  if (const Preset* preset = find_entry(preset_table(), text)) result += preset_text(where, *preset);
  if (const StageEntry* stage = find_entry(stage_table(), text)) {
    if (!result.empty()) result += '\n';
    return result + stage_text(*stage) + contract_lines(where, stage->example.empty() ? text : stage->example);
  }
  if (!result.empty()) return result;
  const Sentence sentence = parse_sentence(where, text);
  const std::string contract = contract_lines(where, text);  // refuses what is no sentence of stages
  for (const Call& call : sentence.calls) result += stage_text(*find_entry(stage_table(), call.name)) + '\n';
  return result + contract;
}

}  // namespace sotto
