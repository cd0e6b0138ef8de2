#include <fmt/format.h>

#include "app/cli/codec_actions.h"
#include "app/cli/measurements.h"
#include "sotto/core/error.h"

namespace sotto {

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
  if (expressions.empty()) throw ConfigError("sotto codec measure: say what with --codec");
  fmt::print("{}", to_text(measure_all(expressions, options, flags), options));
  return 0;
}

}  // namespace sotto
