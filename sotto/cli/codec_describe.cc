#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/cli/codec_actions.h"
#include "sotto/cli/flags.h"
#include "sotto/codec/describe.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"
#include "sotto/optim/optimiser.h"

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
  const Sentence parsed = parse_sentence(where, method.aggregator);
  const Call& call = parsed.calls.front();
  const MethodEntry& entry = require_entry(method_table(), "aggregator", parsed, call);
  std::string text = heading(entry.name, "aggregator", entry.summary, entry.paper);
  text += fmt::format("  sentence   {}\n  contract   {}\n  wire       {}\n", canonical_method(where, sentence),
                      entry.contract, entry.bytes);
  if (entry.bytes_of != nullptr) {
    const std::size_t bytes = entry.bytes_of(parsed, call, *make_codec(where, method.codec), example());
    text += fmt::format("  bytes      {}\n", example_bytes(bytes));
  }
  return text + options_text(entry.help());
}

std::string aggregator_text(const AggregatorEntry& entry) {
  return heading(entry.name, "aggregator", entry.summary, "") +
         fmt::format("  asked for  --aggregator {}, beside the sentence\n", entry.name) +
         options_text(entry.help == nullptr ? "" : entry.help());
}

std::string optimiser_text(const OptimiserEntry& entry) {
  return heading(entry.name, "optimiser", entry.summary, entry.paper) +
         fmt::format("  asked for  --optimiser {}, beside the sentence\n", entry.name) + options_text(entry.help());
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
  if (const AggregatorEntry* aggregator = find_entry(aggregator_table(), name)) {
    texts.push_back(aggregator_text(*aggregator));
  }
  if (const OptimiserEntry* optimiser = find_entry(optimiser_table(), name))
    texts.push_back(optimiser_text(*optimiser));
  return texts;
}

// A single word that no table has: the nearest may be in any of them.
void require_known(std::string_view name) {
  const Sentence sentence = parse_sentence(where, name);
  const Call& call = sentence.calls.front();
  if (text_of(sentence, call) != name) return;
  std::vector<std::string_view> known;
  const auto add = [&](const auto& table) {
    for (const auto& entry : table) {
      if (std::ranges::find(known, entry.name) == known.end()) known.push_back(entry.name);
    }
  };
  add(preset_table());
  add(memory_table());
  add(method_table());
  add(aggregator_table());
  add(stage_table());
  add(optimiser_table());
  if (std::ranges::find(known, call.name) != known.end()) return;
  fail_at(sentence, call, call.position, unknown_name("name", call.name, known));
}

std::vector<std::string> texts_of_sentence(std::string_view sentence) {
  require_known(sentence);
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
  Flags flags("codec describe", "Says what a preset, memory, aggregator, stage or optimiser is, or a whole sentence.",
              "");
  flags.add_positional("sentence", text, "a name, as `sotto codec list` has them, or a sentence in quotes", true);
  if (!flags.parse(arguments)) return 0;
  auto texts = texts_of_name(text);
  if (texts.empty()) texts = texts_of_sentence(text);
  fmt::print("{}", fmt::join(texts, "\n"));
  return 0;
}

}  // namespace sotto
