#include "sotto/codec/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

bool is_memory(const Call& call, std::span<const std::string_view> memories) {
  return std::find(memories.begin(), memories.end(), call.name) != memories.end();
}

const Preset* preset_of(const Sentence& sentence) {
  if (sentence.calls.size() != 1) return nullptr;
  const Call& call = sentence.calls.front();
  return text_of(sentence, call) == call.name ? find_entry(preset_table(), call.name) : nullptr;
}

// A first word may be of three kinds; the error lists them all.
void check_first(const Sentence& sentence, std::span<const std::string_view> memories) {
  const Call& call = sentence.calls.front();
  if (is_memory(call, memories) || find_entry(stage_table(), call.name) != nullptr) return;
  std::vector<std::string_view> known(memories.begin(), memories.end());
  for (const std::string_view name : names_of(stage_table())) known.push_back(name);
  if (sentence.calls.size() == 1) {
    for (const std::string_view name : names_of(preset_table())) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  }
  fail_at(sentence, call, call.position, unknown_name("codec, memory or preset", call.name, known));
}

}  // namespace

Method parse_method(std::string_view where, std::string_view text, std::span<const std::string_view> memories) {
  const Sentence sentence = parse_sentence(where, text);
  if (const Preset* preset = preset_of(sentence)) {
    return {std::string(preset->memory), make_codec(where, preset->codec)->sentence(), std::string(preset->aggregator),
            std::string(preset->name)};
  }
  check_first(sentence, memories);
  Method method;
  const Call& first = sentence.calls.front();
  const bool with_memory = is_memory(first, memories);
  if (with_memory) method.memory = text_of(sentence, first);
  for (std::size_t i = 1; i < sentence.calls.size(); ++i) {
    const Call& call = sentence.calls[i];
    if (is_memory(call, memories)) {
      fail_at(sentence, call, call.position,
              fmt::format("memory `{}` must stand first, and there can be only one", call.name));
    }
  }
  method.codec = make_chain(sentence, with_memory ? 1 : 0)->sentence();
  return method;
}

std::string choose_aggregator(std::string_view where, const Method& method, std::string_view asked) {
  if (asked == "auto" || asked == method.aggregator) return method.aggregator;
  if (method.aggregator == "auto") return std::string(asked);
  throw ConfigError(
      fmt::format("{} {}: the preset `{}` is tied to the aggregator `{}`; leave it out, or write the sentence "
                  "of the preset in full",
                  where, asked, method.preset, method.aggregator));
}

}  // namespace sotto
