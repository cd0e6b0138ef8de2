#include <fmt/format.h>

#include "sotto/aggregate/aggregator.h"
#include "sotto/cli/codec_actions.h"
#include "sotto/cli/flags.h"
#include "sotto/codec/describe.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

void print_aggregator(std::string_view text, const Method& method) {
  const Sentence sentence = parse_sentence("codec", method.aggregator);
  const MethodEntry& entry = require_entry(method_table(), "aggregator", sentence, sentence.calls.front());
  fmt::print("{} (aggregator): {}\n", entry.name, entry.summary);
  if (!entry.paper.empty()) fmt::print("  paper      {}\n", entry.paper);
  fmt::print("  bytes      {}\n  sentence   {}\n", entry.bytes, canonical_method("codec", text));
  if (const std::string own = entry.help(); !own.empty()) fmt::print("options\n{}", own);
}

}  // namespace

int describe_sentence(std::span<const std::string> arguments) {
  std::string text;
  Flags flags("codec describe", "Says what a stage, a preset or a whole sentence is.", "");
  flags.add_positional("sentence", text, "name of a stage or preset, or a sentence in quotes", true);
  if (!flags.parse(arguments)) return 0;
  const bool is_preset = find_entry(preset_table(), text) != nullptr;
  if (const MemoryEntry* memory = find_entry(memory_table(), text)) {
    fmt::print("{} (memory): {}\n  paper      {}\n", memory->name, memory->summary, memory->paper);
    if (const std::string own = memory->help(); !own.empty()) fmt::print("options\n{}", own);
    if (!is_preset) return 0;
    fmt::print("\n");
  }
  if (!is_preset && find_entry(stage_table(), text) == nullptr) {
    const Method method = read_method("codec", text);
    if (!method.memory.empty()) {
      const MemoryEntry& memory = *memory_entry("codec", method.memory);
      fmt::print("{} (memory): {}\n\n", memory.name, memory.summary);
    }
    if (method.by_itself) {
      print_aggregator(text, method);
      return 0;
    }
    text = method.codec;
  }
  fmt::print("{}", describe_codec("codec", text));
  if (!is_preset) return 0;
  if (const Method method = read_method("codec", text); method.by_itself) {
    fmt::print("\n");
    print_aggregator(text, method);
  }
  return 0;
}

}  // namespace sotto
