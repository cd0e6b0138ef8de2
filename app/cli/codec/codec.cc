#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "app/cli/codec/measure.h"
#include "app/cli/codec/vector_file.h"
#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/report/text_table.h"
#include "sotto/codec/basis.h"
#include "sotto/codec/transform/chunks.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::string_view help = R"text(Lists, describes and measures codecs, and advises on a basis.

Usage: sotto codec list [--what | --json]
       sotto codec describe NAME-OR-CODEC
       sotto codec measure --codec CODEC ... [--input FILE] [--csv | --json]
       sotto codec sweep --codec "CODEC WITH {}" --values VALUE ... [--plot FILE.svg] [--csv | --json]
       sotto codec advise-basis FILE [--chunk N] [--json]

Examples:
  sotto codec describe qsgd
  sotto codec describe "ef | topk(0.01) | f16"
  sotto codec measure --codec "topk(0.01)" "topk(0.01) | qsgd(4)" --elements 25000000
  sotto codec sweep --codec "qsgd(bits={})" --values 1..8 --plot qsgd.svg
  sotto train --capture every=100,dir=gradients && sotto codec advise-basis gradients/gradient-000100.safetensors
)text";

constexpr std::array<Command, 5> actions{{{"list", "", list_codecs},
                                          {"describe", "", describe_codec},
                                          {"measure", "", measure_codecs},
                                          {"sweep", "", sweep_codec},
                                          {"advise-basis", "", advise_on_basis}}};

std::string shape_text(const Segment& segment) { return fmt::format("{}", fmt::join(segment.shape, "x")); }

}  // namespace

int run_codec(std::span<const std::string> arguments) { return run_action("codec", actions, help, arguments); }

int measure_codecs(std::span<const std::string> arguments) {
  MeasureOptions options;
  std::vector<std::string> expressions;
  Flags flags("codec measure", "Measures codecs, in turns. Rates are GB/s (1e9 bytes a second) of float input.", R"text(
Examples:
  sotto codec measure --codec "topk(0.01)" "topk(0.01) | qsgd(4)" --elements 25000000
  sotto codec measure --codec "svd | atomo(s=3)" --elements 262144 --rows 512
  python -c "import torch; torch.save(model.weight.grad, 'gradient.pt')"; sotto codec measure --codec svd --input gradient.pt)text");
  flags.add_list("codec", expressions, "what to measure, each codec in quotes; memories are left out");
  if (!flags.read(arguments, options)) return 0;
  refuse(expressions.empty(), "sotto codec measure: say what with --codec");
  fmt::print("{}", to_text(measure_all(expressions, options, flags), options));
  return 0;
}

int advise_on_basis(std::span<const std::string> arguments) {
  std::string file;
  std::int64_t chunk = 64;
  bool as_json = false;
  Flags flags("codec advise-basis", "Says in which basis ATOMO sparsifies each tensor of a captured gradient best.",
              "Weights are in |G|_2: ATOMO's variance with B floats is (weight^2 / B - 1) |G|_2^2.");
  flags.add_positional("file", file, "gradient that `sotto train --capture` wrote, or .npy, .safetensors or .pt", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("chunk", chunk, "elements of a cosine transform, a power of two", {1, 1U << 16});
    v.option("json", as_json, "print JSON");
  };
  if (!flags.read(arguments, visit)) return 0;
  if (const std::string problem = ChunkOptions(chunk).problem(); !problem.empty()) {
    throw ConfigError(fmt::format("--chunk {}: {}", chunk, problem));
  }
  const GradientFile gradient = read_vector(file);
  require_finite(file, gradient);
  const auto weights = weigh_bases(gradient.layout, gradient.values, chunk);
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
  fmt::print("{}", as_json ? json.dump(2) + "\n" : table.plain());
  return 0;
}

}  // namespace sotto
