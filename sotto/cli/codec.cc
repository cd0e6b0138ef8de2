#include "sotto/codec/codec.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/cli/commands.h"
#include "sotto/cli/flags.h"
#include "sotto/cli/float_file.h"
#include "sotto/cli/text_table.h"
#include "sotto/codec/basis.h"
#include "sotto/codec/describe.h"
#include "sotto/codec/gradient_file.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/presets.h"
#include "sotto/codec/sample.h"
#include "sotto/codec/stages.h"
#include "sotto/codec/transform/chunks.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

constexpr std::string_view help = R"text(Lists, describes and measures codecs, and advises on a basis.

Usage: sotto codec list
       sotto codec describe NAME-OR-SENTENCE
       sotto codec measure --codec SENTENCE [--elements N] [--input FILE] [--json]
       sotto codec advise-basis FILE [--chunk N] [--json]

Examples:
  sotto codec describe qsgd
  sotto codec describe "ef | topk(0.01) | f16"
  sotto codec measure --codec "topk(0.01)" --elements 25000000
  sotto train --capture every=100,dir=gradients && sotto codec advise-basis gradients/gradient-000100.sotto
)text";

Layout flat_layout(std::size_t elements) {
  return Layout({{"values", 0, {static_cast<std::int64_t>(elements)}}}, elements);
}

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

// Contract and linearity of a codec sentence; an aggregator in its place has none.
std::array<std::string, 2> promises(std::string_view sentence) {
  if (find_entry(stage_table(), parse_sentence("sotto codec list", sentence).calls.front().name) == nullptr) {
    return {"-", "-"};
  }
  const Layout matrix({{"values", 0, {256, 256}}}, 1 << 16);  // what svd leaves out shows in a matrix
  const Contract contract = make_codec("sotto codec list", sentence)->contract(matrix);
  return {std::string(word(contract.kind)), contract.linear ? "yes" : "no"};
}

int list(std::span<const std::string> arguments) {
  Flags flags("codec list", "Lists presets, memories and stages of codecs.", "");
  if (!flags.parse(arguments)) return 0;
  TextTable table({"name", "kind", "contract", "linear", "what"});
  for (const std::size_t column : {1, 2, 3, 4}) table.left(column);
  for (const Preset& preset : preset_table()) {
    const auto [contract, linear] = promises(preset.codec);
    table.add({std::string(preset.name), "preset", contract, linear,
               fmt::format("{}: {}", sentence_of(preset), preset.summary)});
  }
  for (const MemoryEntry& memory : memory_table()) {
    table.add({std::string(memory.name), "memory", "-", "-", std::string(memory.summary)});
  }
  for (const MethodEntry& method : method_table()) {
    table.add({std::string(method.name), "aggregator", "-", "-", std::string(method.summary)});
  }
  for (const StageEntry& stage : stage_table()) {
    // With brackets, it is not the preset of this name.
    const auto [contract, linear] =
        promises(stage.example.empty() ? fmt::format("{}()", stage.name) : std::string(stage.example));
    table.add(
        {std::string(stage.name), std::string(name_of(stage.kind)), contract, linear, std::string(stage.summary)});
  }
  fmt::print("{}", table.plain());
  return 0;
}

void print_aggregator(std::string_view text, const Method& method) {
  const Sentence sentence = parse_sentence("codec", method.aggregator);
  const MethodEntry& entry = require_entry(method_table(), "aggregator", sentence, sentence.calls.front());
  fmt::print("{} (aggregator): {}\n", entry.name, entry.summary);
  if (!entry.paper.empty()) fmt::print("  paper      {}\n", entry.paper);
  fmt::print("  bytes      {}\n  sentence   {}\n", entry.bytes, canonical_method("codec", text));
  if (const std::string own = entry.help(); !own.empty()) fmt::print("options\n{}", own);
}

int describe(std::span<const std::string> arguments) {
  std::string text;
  Flags flags("codec describe", "Says what a stage, a preset or a whole sentence is.", "");
  flags.add_positional("sentence", text, "name of a stage or preset, or a sentence in quotes", true);
  if (!flags.parse(arguments)) return 0;
  if (const MemoryEntry* memory = find_entry(memory_table(), text)) {
    fmt::print("{} (memory): {}\n  paper      {}\n", memory->name, memory->summary, memory->paper);
    if (const std::string own = memory->help(); !own.empty()) fmt::print("options\n{}", own);
    return 0;
  }
  if (find_entry(preset_table(), text) == nullptr && find_entry(stage_table(), text) == nullptr) {
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
  return 0;
}

struct MeasureOptions {
  std::string codec;
  std::int64_t elements = 1 << 22;
  std::string input = "gaussian";
  std::int64_t seed = 1;
  std::int64_t repeats = 7;
  std::int64_t threads = 1;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("codec", codec, "sentence to measure; a memory in front of it is left out");
    v.option("elements", elements, "number of made values", {1, 1e9});
    v.option("input", input,
             "made values (gaussian, student, sparse), or a file: a captured gradient, .npy, or raw float32");
    v.option("seed", seed, "seed of made values", Bounds::at_least(0));
    v.option("repeats", repeats, "how often it is timed; medians are printed", {1, 10000});
    v.option("threads", threads, "threads that encode and decode", {1, 256});
    v.option("json", json, "print JSON");
  }
};

GradientFile input_of(const MeasureOptions& options, bool elements_given) {
  if (find_entry(sample_table(), options.input) == nullptr && options.input.find_first_of("./") != std::string::npos) {
    if (elements_given) throw ConfigError("--elements: the file of --input says how many there are");
    if (is_gradient_file(read_file(options.input))) return read_gradient_file(options.input);
    std::vector<float> values = read_floats(options.input);
    return {0, flat_layout(values.size()), std::move(values)};
  }
  std::vector<float> values(static_cast<std::size_t>(options.elements));
  fill_sample("--input", options.input, static_cast<std::uint64_t>(options.seed), values);
  return {0, flat_layout(values.size()), std::move(values)};
}

int measure_codec(std::span<const std::string> arguments) {
  MeasureOptions options;
  Flags flags("codec measure", "Measures a codec: rates are of float input, 1e9 bytes a second.", "");
  flags.add(options);
  if (!flags.parse(arguments)) return 0;
  flags.assign(options);
  if (options.codec.empty()) throw ConfigError("sotto codec measure: say what with --codec");

  const Method method = read_method("--codec", options.codec);
  if (method.by_itself) {
    throw ConfigError("--codec " + options.codec + ": `" + method.aggregator +
                      "` needs other ranks and makes no messages to be measured; try `sotto compare`");
  }
  const auto workers = std::make_shared<Workers>(static_cast<int>(options.threads));
  const auto codec = make_codec("--codec", method.codec, workers);
  const GradientFile input = input_of(options, flags.given("elements"));
  const Measurement m = measure(*codec, input.layout, input.values, static_cast<int>(options.repeats));
  if (options.json) {
    const nlohmann::ordered_json json{{"codec", codec->sentence()},
                                      {"threads", options.threads},
                                      {"elements", m.elements},
                                      {"bytes", m.bytes},
                                      {"ratio", m.ratio},
                                      {"relative_error", m.relative_error},
                                      {"encode_gbps", m.encode_gbps},
                                      {"decode_gbps", m.decode_gbps},
                                      {"memcpy_gbps", m.memcpy_gbps}};
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  TextTable table({"codec", "elements", "bytes", "bytes/element", "ratio", "relative error", "encode GB/s",
                   "decode GB/s", "memcpy GB/s"});
  table.add({codec->sentence(), std::to_string(m.elements), std::to_string(m.bytes),
             fmt::format("{:.3f}", static_cast<double>(m.bytes) / static_cast<double>(m.elements)),
             fmt::format("{:.2f}", m.ratio), fmt::format("{:.4g}", m.relative_error),
             fmt::format("{:.2f}", m.encode_gbps), fmt::format("{:.2f}", m.decode_gbps),
             fmt::format("{:.2f}", m.memcpy_gbps)});
  fmt::print("{}", table.plain());
  return 0;
}

struct AdviseOptions {
  std::int64_t chunk = 64;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("chunk", chunk, "elements of a cosine transform, a power of two", {1, 1U << 16});
    v.option("json", json, "print JSON");
  }
};

std::string shape_text(const Segment& segment) { return fmt::format("{}", fmt::join(segment.shape, "x")); }

int advise_basis(std::span<const std::string> arguments) {
  std::string file;
  AdviseOptions options;
  Flags flags("codec advise-basis", "Says in which basis ATOMO sparsifies each tensor of a captured gradient best.",
              "Weights are in |G|_2: ATOMO's variance with B floats is (weight^2 / B - 1) |G|_2^2.");
  flags.add_positional("file", file, "gradient that `sotto train --capture` wrote", true);
  flags.add(options);
  if (!flags.parse(arguments)) return 0;
  flags.assign(options);
  if (const std::string problem = ChunkOptions(options.chunk).problem(); !problem.empty()) {
    throw ConfigError(fmt::format("--chunk {}: {}", options.chunk, problem));
  }
  const GradientFile gradient = read_gradient_file(file);
  const auto weights = weigh_bases(gradient.layout, gradient.values, options.chunk);
  TextTable table({"tensor", "shape", "entries", "svd", "dct", "advice"});
  for (const std::size_t column : {0, 1, 5}) table.left(column);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Segment& segment = gradient.layout.segments()[i];
    const BasisWeights& w = weights[i];
    const double norm = w.norm > 0 ? w.norm : 1;
    table.add({segment.name, shape_text(segment), fmt::format("{:.1f}", w.entries / norm),
               fmt::format("{:.1f}", w.singular / norm), fmt::format("{:.1f}", w.cosine / norm),
               std::string(w.advice())});
    json.push_back({{"tensor", segment.name},
                    {"shape", segment.shape},
                    {"entries", w.entries / norm},
                    {"svd", w.singular / norm},
                    {"dct", w.cosine / norm},
                    {"advice", w.advice()}});
  }
  fmt::print("{}", options.json ? json.dump(2) + "\n" : table.plain());
  return 0;
}

constexpr std::array<Command, 4> actions{{{"list", "", list},
                                          {"describe", "", describe},
                                          {"measure", "", measure_codec},
                                          {"advise-basis", "", advise_basis}}};

}  // namespace

int run_codec(std::span<const std::string> arguments) { return run_action("codec", actions, help, arguments); }

}  // namespace sotto
