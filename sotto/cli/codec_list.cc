#include <fmt/format.h>

#include <array>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/cli/codec_actions.h"
#include "sotto/cli/flags.h"
#include "sotto/cli/text_table.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/sample.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

std::string_view word(Contract::Kind kind) {
  switch (kind) {
    case Contract::Kind::exact: return "exact";
    case Contract::Kind::rounding: return "rounding";
    case Contract::Kind::unbiased: return "unbiased";
    case Contract::Kind::contraction: return "contraction";
    case Contract::Kind::none: return "none";
  }
  return "?";
}

constexpr std::size_t side = 256;  // rows and columns of the sample: what svd leaves out shows in a matrix

struct Facts {
  std::string contract = "-", linear = "-", bytes = "-";
};

// Of a codec sentence; an aggregator in its place has none.
Facts facts_of(std::string_view sentence) {
  if (find_entry(stage_table(), parse_sentence("sotto codec list", sentence).calls.front().name) == nullptr) return {};
  const Layout matrix({{"values", 0, {side, side}}}, side * side);
  std::vector<float> values(matrix.size());
  fill_sample("sotto codec list", "gaussian", 1, values);
  const auto codec = make_codec("sotto codec list", sentence);
  const Contract contract = codec->contract(matrix);
  const auto bytes = static_cast<double>(measure(*codec, matrix, values, 1).bytes);
  return {std::string(word(contract.kind)), contract.linear ? "yes" : "no",
          fmt::format("{:.3f}", bytes / static_cast<double>(matrix.size()))};
}

}  // namespace

int list_codecs(std::span<const std::string> arguments) {
  Flags flags("codec list", "Lists presets, memories, aggregators and stages of codecs.",
              "Bytes an element are those of a message of 256 x 256 normal values, header included.");
  if (!flags.parse(arguments)) return 0;
  TextTable table({"name", "kind", "contract", "linear", "bytes/element", "what", "paper"});
  for (const std::size_t column : {1, 2, 3, 5, 6}) table.left(column);
  const auto add = [&table](std::string_view name, std::string_view kind, const Facts& facts, std::string_view what,
                            std::string_view paper) {
    table.add({std::string(name), std::string(kind), facts.contract, facts.linear, facts.bytes, std::string(what),
               std::string(paper)});
  };
  for (const Preset& preset : preset_table()) {
    add(preset.name, "preset", facts_of(preset.codec), fmt::format("{}: {}", sentence_of(preset), preset.summary),
        preset.paper);
  }
  for (const MemoryEntry& memory : memory_table()) add(memory.name, "memory", {}, memory.summary, memory.paper);
  for (const MethodEntry& method : method_table()) add(method.name, "aggregator", {}, method.summary, method.paper);
  for (const StageEntry& stage : stage_table()) {
    // With brackets, it is not the preset of this name.
    const auto sentence = stage.example.empty() ? fmt::format("{}()", stage.name) : std::string(stage.example);
    add(stage.name, name_of(stage.kind), facts_of(sentence), stage.summary, stage.paper);
  }
  fmt::print("{}", table.plain());
  return 0;
}

}  // namespace sotto
