#include "sotto/algorithm/local/differences.h"

#include <fmt/format.h>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// Why not; empty: nothing is said against it.
std::string objection(const Method& method, std::span<const BucketPlan> buckets) {
  if (method.by_itself && method.aggregator == "auto") {
    return "auto times whole steps, of which most send nothing here; say which codec";
  }
  if (const std::string made = momentum_of("--codec", method); !made.empty()) {
    return fmt::format(
        "`{}` makes a momentum of gradients; use `ef`, and `slowmo` or `diloco` for a momentum of what is exchanged",
        made);
  }
  const MemoryEntry* memory = memory_entry("--codec", method.memory);
  if (memory != nullptr && memory->rate) {
    return fmt::format("`{}` multiplies by the learning rate, which is in them already; use `ef`", memory->name);
  }
  const auto codec = make_codec("--codec", method.codec);
  for (const BucketPlan& bucket : buckets) {
    if (codec->contract(bucket.layout).input != Contract::Input::gradient) continue;
    return fmt::format(
        "`{}` is for gradients alone; `sotto codec describe` says which one is for differences of models",
        method.codec);
  }
  return "";
}

}  // namespace

std::vector<Phase> phases_of_differences(std::string_view algorithm, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets) {
  std::vector<Phase> phases = options.all_phases();
  for (const Phase& phase : phases) {
    const std::string why = objection(read_method("--codec", phase.method), buckets);
    if (why.empty()) continue;
    throw ConfigError(
        fmt::format("--codec {}: `{}` exchanges how far ranks went, not gradients: {}", phase.method, algorithm, why));
  }
  return phases;
}

}  // namespace sotto
