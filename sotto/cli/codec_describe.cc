#include <fmt/format.h>

#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/cli/codec_actions.h"
#include "sotto/cli/flags.h"
#include "sotto/codec/describe.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

constexpr std::string_view where = "codec";

std::string heading(std::string_view name, std::string_view kind, std::string_view summary, std::string_view paper) {
  const std::string text = fmt::format("{} ({}): {}\n", name, kind, summary);
  return paper.empty() ? text : text + fmt::format("  paper      {}\n", paper);
}

std::string options_text(const std::string& help) { return help.empty() ? "" : "options\n" + help; }

std::string memory_text(const MemoryEntry& memory) {
  return heading(memory.name, "memory", memory.summary, memory.paper) + options_text(memory.help());
}

// Of a sentence that such an aggregator stands in.
std::string method_text(std::string_view sentence, const Method& method) {
  const Sentence call = parse_sentence(where, method.aggregator);
  const MethodEntry& entry = require_entry(method_table(), "aggregator", call, call.calls.front());
  return heading(entry.name, "aggregator", entry.summary, entry.paper) +
         fmt::format("  bytes      {}\n  sentence   {}\n", entry.bytes, canonical_method(where, sentence)) +
         options_text(entry.help());
}

std::string memory_sentence(const Method& method) { return make_memory(where, method.memory, {})->sentence(); }

// What all of this name are: a preset and a stage, for instance.
std::vector<std::string> texts_of_name(std::string_view name) {
  std::vector<std::string> texts;
  if (const MemoryEntry* memory = find_entry(memory_table(), name)) texts.push_back(memory_text(*memory));
  if (const Preset* preset = find_entry(preset_table(), name)) {
    const Method method = read_method(where, name);
    texts.push_back(describe_preset(*preset, memory_sentence(method)));
    if (method.by_itself) texts.push_back(method_text(name, method));
  }
  if (const StageEntry* stage = find_entry(stage_table(), name)) texts.push_back(describe_stage(*stage));
  return texts;
}

std::vector<std::string> texts_of_sentence(std::string_view sentence) {
  std::vector<std::string> texts;
  const Method method = read_method(where, sentence);
  if (const MemoryEntry* memory = memory_entry(where, method.memory)) texts.push_back(memory_text(*memory));
  texts.push_back(method.by_itself ? method_text(sentence, method)
                                   : describe_codec(where, method.codec, memory_sentence(method)));
  return texts;
}

}  // namespace

int describe_sentence(std::span<const std::string> arguments) {
  std::string text;
  Flags flags("codec describe", "Says what a stage, a preset or a whole sentence is.", "");
  flags.add_positional("sentence", text, "name of a stage or preset, or a sentence in quotes", true);
  if (!flags.parse(arguments)) return 0;
  auto texts = texts_of_name(text);
  if (texts.empty()) texts = texts_of_sentence(text);
  fmt::print("{}", fmt::join(texts, "\n"));
  return 0;
}

}  // namespace sotto
