#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/cli/codec_actions.h"
#include "app/cli/flags.h"
#include "app/cli/vector_file.h"
#include "app/report/text_table.h"
#include "sotto/codec/basis.h"
#include "sotto/codec/transform/chunks.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

struct AdviseOptions {
  std::int64_t chunk = 64;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("chunk", chunk, "elements of a cosine transform, a power of two", {1, 1U << 16});
    v.option("json", json, "print JSON");
  }
};

std::string shape_text(const Segment& segment) { return fmt::format("{}", fmt::join(segment.shape, "x")); }

}  // namespace

int advise_on_basis(std::span<const std::string> arguments) {
  std::string file;
  AdviseOptions options;
  Flags flags("codec advise-basis", "Says in which basis ATOMO sparsifies each tensor of a captured gradient best.",
              "Weights are in |G|_2: ATOMO's variance with B floats is (weight^2 / B - 1) |G|_2^2.");
  flags.add_positional("file", file, "gradient that `sotto train --capture` wrote, or .npy, .safetensors or .pt", true);
  if (!flags.read(arguments, options)) return 0;
  if (const std::string problem = ChunkOptions(options.chunk).problem(); !problem.empty()) {
    throw ConfigError(fmt::format("--chunk {}: {}", options.chunk, problem));
  }
  const GradientFile gradient = read_vector(file);
  require_finite(file, gradient);
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

}  // namespace sotto
