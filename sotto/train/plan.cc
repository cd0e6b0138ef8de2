#include "sotto/train/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/aggregate/warmup.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::uint64_t whole(std::int64_t option) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, option)); }

}  // namespace

RunPlan plan_run(const TrainOptions& options, std::uint64_t batches, std::uint64_t dense_steps) {
  const std::uint64_t accumulate = whole(options.accumulate);
  const std::uint64_t micro_steps = whole(options.epochs) * batches;
  RunPlan plan;
  plan.steps_per_epoch = std::max<std::uint64_t>(1, batches / accumulate);
  plan.steps = micro_steps / accumulate;
  if (plan.steps == 0) {
    throw ConfigError(
        fmt::format("--accumulate {}: {} epochs have only {} micro-steps", accumulate, options.epochs, micro_steps));
  }
  plan.horizon = options.horizon > 0 ? whole(options.horizon) : plan.steps;
  if (options.max_steps > 0) plan.steps = std::min(plan.steps, whole(options.max_steps));
  plan.phases = {{0, recipe_of(options)}};
  if (!options.codec_warmup.empty()) {
    Warmup warmup = make_warmup(parse_sentence("codec-warmup", options.codec_warmup), plan.phases.front().recipe,
                                plan.steps_per_epoch, plan.horizon);
    plan.phases = std::move(warmup.phases);
    plan.remark = std::move(warmup.remark);
  }
  // An optimiser that has such steps was told those of the flag.
  const std::uint64_t dense = std::max(dense_steps, whole(options.codec_start_after));
  plan.phases = start_after(dense, std::move(plan.phases));
  if (!options.peers_per_step.empty()) {
    plan.topologies = peer_phases("peers-per-step", options.peers_per_step, options.topology,
                                  static_cast<int>(options.ranks / options.node_size), plan.steps_per_epoch);
  }
  return plan;
}

}  // namespace sotto
