#include "sotto/codec/describe.h"

#include <fmt/format.h>

#include "sotto/codec/contract.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

std::string contract_lines(std::string_view where, std::string_view sentence, std::string_view memory = "") {
  const auto codec = make_codec(where, sentence);
  const std::size_t bytes = codec->max_bytes(example(), {0, example().size()});
  const std::string before = memory.empty() ? "" : fmt::format("{} | ", memory);
  const std::string whose =
      memory.empty() ? "" : fmt::format("behind `{}`: ", parse_sentence(where, memory).calls.front().name);
  return fmt::format("  sentence   {}{}\n  contract   {}{}\n  bytes      at most {}\n", before, codec->sentence(),
                     whose, describe(codec->contract(example())), example_bytes(bytes));
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

const Layout& example() {
  static const Layout layout({{"example", 0, {1000, 1000}}}, 1000000);
  return layout;
}

std::string example_bytes(std::size_t bytes) {
  return fmt::format("{} for a segment of {} floats, {:.4g} bit an element", bytes,
                     fmt::join(example().segments().front().shape, " x "),
                     8.0 * static_cast<double>(bytes) / static_cast<double>(example().size()));
}

std::string describe_stage(const StageEntry& stage) {
  return stage_text(stage) + contract_lines("describe", stage.example.empty() ? stage.name : stage.example);
}

std::string describe_preset(const Preset& preset, std::string_view memory) {
  constexpr std::string_view where = "describe";
  std::string text = fmt::format("{} (preset): {}\n", preset.name, preset.summary);
  if (!preset.paper.empty()) text += fmt::format("  paper      {}\n", preset.paper);
  text += fmt::format("  means      {}\n", sentence_of(preset));
  const bool codec = is_codec(where, preset.codec);
  text += fmt::format("  aggregator {}\n", !codec                        ? "that of the sentence"
                                           : preset.aggregator == "auto" ? "auto, or another"
                                                                         : preset.aggregator);
  text += fmt::format("  optimiser  {}\n", preset.optimiser == "auto" ? "sgd, or another" : preset.optimiser);
  if (!preset.pitfalls.empty()) text += fmt::format("  pitfalls   {}\n", preset.pitfalls);
  text += wire_lines(where, preset.codec);
  return codec ? text + contract_lines(where, preset.codec, memory) : text;
}

std::string describe_codec(std::string_view where, std::string_view sentence, std::string_view memory) {
  const std::string contract = contract_lines(where, sentence, memory);  // refuses what is no sentence of stages
  std::string text;
  for (const Call& call : parse_sentence(where, sentence).calls) {
    text += stage_text(*find_entry(stage_table(), call.name)) + '\n';
  }
  return text + contract;
}

}  // namespace sotto
