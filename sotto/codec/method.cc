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

using Names = std::span<const std::string_view>;

bool is_among(const Call& call, Names names) { return std::ranges::find(names, call.name) != names.end(); }

const Preset* preset_of(const Sentence& sentence) {
  if (sentence.calls.size() != 1) return nullptr;
  const Call& call = sentence.calls.front();
  return text_of(sentence, call) == call.name ? find_entry(preset_table(), call.name) : nullptr;
}

// What must be written in place of a preset: "momentum | sampled_topk(0.1%), with the optimiser `dgc`".
std::string in_full(const Preset& preset) {
  std::string text = sentence_of(preset);
  if (preset.aggregator != "auto") text += fmt::format(", with the aggregator `{}`", preset.aggregator);
  if (preset.optimiser != "auto") {
    text += fmt::format("{} the optimiser `{}`", preset.aggregator == "auto" ? ", with" : " and", preset.optimiser);
  }
  return text;
}

// A preset is a whole sentence, unless a stage has its name.
void check_no_preset(const Sentence& sentence, const Call& call) {
  const Preset* preset = find_entry(preset_table(), call.name);
  if (preset == nullptr || find_entry(stage_table(), call.name) != nullptr) return;
  fail_at(sentence, call, call.position,
          fmt::format("the preset `{}` stands alone{}; write what it stands for: {}", call.name,
                      call.arguments.empty() ? "" : " and takes no options", in_full(*preset)));
}

// A first word may be of four kinds; the error lists them all.
void check_first(const Sentence& sentence, Names memories, Names aggregators) {
  const Call& call = sentence.calls.front();
  if (is_among(call, memories) || is_among(call, aggregators)) return;
  if (find_entry(stage_table(), call.name) != nullptr) return;
  check_no_preset(sentence, call);
  std::vector<std::string_view> known(memories.begin(), memories.end());
  known.insert(known.end(), aggregators.begin(), aggregators.end());
  for (const std::string_view name : names_of(stage_table())) known.push_back(name);
  if (sentence.calls.size() == 1) {
    for (const std::string_view name : names_of(preset_table())) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  }
  fail_at(sentence, call, call.position, unknown_name("codec, memory or preset", call.name, known));
}

// No memory, aggregator or preset from number `first` on.
void check_rest(const Sentence& sentence, std::size_t first, Names memories, Names aggregators) {
  for (std::size_t i = first; i < sentence.calls.size(); ++i) {
    const Call& call = sentence.calls[i];
    if (is_among(call, memories)) {
      fail_at(sentence, call, call.position,
              fmt::format("memory `{}` must stand first, and there can be only one", call.name));
    }
    if (is_among(call, aggregators)) {
      fail_at(sentence, call, call.position,
              fmt::format("`{}` takes the place of the stages: only a memory may stand before it", call.name));
    }
    check_no_preset(sentence, call);
  }
}

// Of what is no name of a preset.
Method parse_whole(const Sentence& sentence, Names memories, Names aggregators) {
  check_first(sentence, memories, aggregators);
  Method method;
  const auto& calls = sentence.calls;
  std::size_t next = 0;
  if (is_among(calls.front(), memories)) method.memory = text_of(sentence, calls[next++]);
  method.by_itself = next < calls.size() && is_among(calls[next], aggregators);
  if (method.by_itself) method.aggregator = text_of(sentence, calls[next++]);
  check_rest(sentence, next, memories, aggregators);
  const auto codec = make_chain(sentence, next);
  if (method.by_itself && !codec->linear_type()) {
    fail_at(sentence, calls[next], calls[next].position,
            fmt::format("what follows `{}` is summed on the way: it must be linear", calls[next - 1].name));
  }
  method.codec = codec->sentence();
  return method;
}

}  // namespace

Method parse_method(std::string_view where, std::string_view text, Names memories, Names aggregators) {
  const Sentence sentence = parse_sentence(where, text);
  const Preset* preset = preset_of(sentence);
  if (preset == nullptr) return parse_whole(sentence, memories, aggregators);
  Method method = parse_whole(parse_sentence(where, sentence_of(*preset)), memories, aggregators);
  if (preset->aggregator != "auto") method.aggregator = preset->aggregator;
  method.preset = preset->name;
  method.optimiser = preset->optimiser;
  return method;
}

std::string choose_aggregator(std::string_view where, const Method& method, std::string_view asked) {
  if (asked == "auto" || asked == method.aggregator) return method.aggregator;
  if (method.aggregator == "auto") return std::string(asked);
  if (method.preset.empty()) {
    throw ConfigError(fmt::format("{} {}: `{}` of the sentence is an aggregator itself; leave one of them out", where,
                                  asked, method.aggregator));
  }
  throw ConfigError(
      fmt::format("{} {}: the preset `{}` is tied to the aggregator `{}`; leave it out, or write the sentence "
                  "of the preset in full",
                  where, asked, method.preset, method.aggregator));
}

std::string choose_optimiser(std::string_view where, const Method& method, std::string_view asked) {
  if (asked == "auto" || method.optimiser == "auto") return std::string(asked == "auto" ? method.optimiser : asked);
  const auto name = [&](std::string_view sentence) { return parse_sentence(where, sentence).calls.front().name; };
  if (name(asked) == name(method.optimiser)) return std::string(asked);
  throw ConfigError(fmt::format(
      "{} {}: the preset `{}` is tied to the optimiser `{}`; leave it out, or write the sentence of the preset in full",
      where, asked, method.preset, method.optimiser));
}

}  // namespace sotto
