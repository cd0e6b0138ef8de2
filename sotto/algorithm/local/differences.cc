#include "sotto/algorithm/local/differences.h"

#include <fmt/format.h>

#include "sotto/aggregate/auto_codec.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// Why a recipe cannot be used on differences of models; empty if it can.
std::string objection(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  if (recipe.by_itself() && recipe.aggregator.entry->name == auto_codec_name) {
    return "auto times whole steps, of which most send nothing here; say which codec";
  }
  if (const std::string made = momentum_of(recipe); !made.empty()) {
    return fmt::format(
        "`{}` makes a momentum of gradients; use `ef`, and `slowmo` or `diloco` for a momentum of what is exchanged",
        made);
  }
  if (recipe.memory && recipe.memory.entry->rate) {
    return fmt::format("`{}` multiplies by the learning rate, which is in them already; use `ef`",
                       recipe.memory.entry->name);
  }
  const auto codec = make_codec(recipe.stages);
  for (const BucketPlan& bucket : buckets) {
    if (codec->contract(bucket.layout).input != Contract::Input::gradient) continue;
    return fmt::format(
        "`{}` is for gradients alone; `sotto codec describe` says which one is for differences of models",
        codec->traits().text);
  }
  return "";
}

}  // namespace

std::vector<Phase> phases_of_differences(std::string_view algorithm, const AlgorithmOptions& options,
                                         std::span<const BucketPlan> buckets) {
  for (const Phase& phase : options.phases) {
    const std::string why = objection(phase.recipe, buckets);
    if (why.empty()) continue;
    throw ConfigError(fmt::format("{}: `{}` exchanges how far ranks went, not gradients: {}",
                                  named(phase.recipe.option, phase.recipe.said), algorithm, why));
  }
  return options.phases;
}

}  // namespace sotto
