#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/report/text_table.h"
#include "sotto/aggregate/presets.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

std::string_view word(const Contract& contract) {
  switch (contract.kind) {
    case Contract::Kind::exact: return "exact";
    case Contract::Kind::rounding: return "rounding";
    case Contract::Kind::unbiased: return "unbiased";
    case Contract::Kind::contraction: return "contraction";
    case Contract::Kind::none: return std::isfinite(contract.omega) ? "biased" : "none";
  }
  return "?";
}

constexpr std::size_t side = 256;  // rows and columns of the sample, a matrix because of svd

// Unknown values are "-".
struct Facts {
  std::string contract = "-", linear = "-";
  std::optional<double> bytes{};  // per element
};

Layout matrix() { return {{{"values", 0, {side, side}}}, side * side}; }

double an_element(std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(side * side); }

Facts facts_of(std::string_view text) {
  const Recipe recipe = read_recipe(parse_expression("codec list", text));
  const auto codec = make_codec(recipe.stages);
  if (recipe.by_itself()) {
    const MethodTraits& method = *recipe.aggregator.entry->method;
    if (method.bytes_of == nullptr) return {};
    return {"biased", "yes", an_element(method.bytes_of(recipe.aggregator.options, *codec, matrix()))};
  }
  std::vector<float> values(side * side);
  fill_sample("codec list", "gaussian", 1, values);
  const Contract contract = codec->contract(matrix());
  return {std::string(word(contract)), contract.linear ? "yes" : "no",
          an_element(measure(*codec, matrix(), values, 1).bytes)};
}

struct Line {
  std::string_view name, kind, paper;
  Facts facts;
  std::string what;
};

std::vector<Line> all_lines() {
  std::vector<Line> lines;
  for (const Preset& preset : preset_table()) {
    lines.push_back({preset.name, "preset", preset.paper, facts_of(preset.codec),
                     fmt::format("{}: {}", text_of(preset), preset.summary)});
  }
  for (const MemoryEntry& memory : memory_table()) {
    lines.push_back({memory.name, "memory", memory.paper, {}, std::string(memory.summary)});
  }
  for (const AggregatorEntry& aggregator : aggregator_table()) {
    lines.push_back({aggregator.name, "aggregator", aggregator.paper, {}, std::string(aggregator.summary)});
  }
  for (const StageEntry& stage : stage_table()) {
    // Brackets show that the stage is meant, not a preset of this name.
    const auto expression = stage.example.empty() ? fmt::format("{}()", stage.name) : std::string(stage.example);
    lines.push_back({stage.name, name_of(stage.kind), stage.paper, facts_of(expression), std::string(stage.summary)});
  }
  return lines;
}

std::string to_json(std::span<const Line> lines) {
  auto json = nlohmann::ordered_json::array();
  for (const auto& [name, kind, paper, facts, what] : lines) {
    json.push_back({{"name", name},
                    {"kind", kind},
                    {"contract", facts.contract},
                    {"linear", facts.linear},
                    {"bytes_per_element", facts.bytes ? nlohmann::ordered_json(*facts.bytes) : nullptr},
                    {"paper", paper},
                    {"what", what}});
  }
  return json.dump(2) + "\n";
}

std::string to_table(std::span<const Line> lines, bool with_what) {
  std::vector<std::string> headings{"name", "kind", "contract", "linear", "bytes/element", "paper"};
  if (with_what) headings.emplace_back("what");
  TextTable table(headings);
  for (std::size_t column = 1; column < headings.size(); ++column) {
    if (column != 4) table.left(column);
  }
  for (const auto& [name, kind, paper, facts, what] : lines) {
    std::vector<std::string> row{std::string(name),
                                 std::string(kind),
                                 facts.contract,
                                 facts.linear,
                                 facts.bytes ? fmt::format("{:.3f}", *facts.bytes) : "-",
                                 paper.empty() ? "-" : std::string(paper.substr(0, paper.find(';')))};
    if (with_what) row.push_back(what);
    table.add(std::move(row));
  }
  return table.plain();
}

}  // namespace

int list_codecs(std::span<const std::string> arguments) {
  bool what = false, json = false;
  Flags flags("codec list", "Lists presets, memories, aggregators and stages of codecs.",
              "Bytes per element are measured on a message of 256 x 256 normal values, header included. Messages of a "
              "linear codec\ncan be summed on their way. `sotto codec describe NAME` says more about each.");
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("what", what, "also describe each one, in lines of up to 300 characters");
    v.option("json", json, "print JSON");
  };
  if (!flags.read(arguments, visit)) return 0;
  refuse(what && json, "--what: JSON has the descriptions in any case; leave --what or --json out");
  const std::vector<Line> lines = all_lines();
  fmt::print("{}", json ? to_json(lines) : to_table(lines, what));
  return 0;
}

}  // namespace sotto
