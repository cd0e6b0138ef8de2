#include "app/advise/advisor.h"

#include <algorithm>
#include <thread>

#include "app/advise/companions.h"
#include "app/advise/host_cost.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::int64_t most_gradients = 8;  // further ranks have one of these, too

// How many other ranks compute at once: as many as there are cores for.
std::size_t companions_on(const Host& host) {
  const std::int64_t at_once = std::min(host.ranks, Host::machine_cores() / host.threads);
  return static_cast<std::size_t>(std::max<std::int64_t>(1, at_once) - 1);
}

}  // namespace

std::int64_t Host::machine_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

Advice advise(const Choices& choices, std::span<const Method> methods, const Host& host, Quality least) {
  const TrainOptions& options = choices.options;
  const Companions companions(choices, companions_on(host));
  Advice advice{.compute = measure_compute(choices, static_cast<std::size_t>(std::min(options.ranks, most_gradients))),
                .host = host,
                .ranked = {}};
  const HostCost below = measure_host_cost();
  const Speeds speeds =
      speeds_of(host.cores(), static_cast<double>(host.threads), static_cast<double>(options.codec_threads));
  for (const Method& method : methods) {
    try {
      const Trial trial = try_method(method.recipe, advice.compute,
                                     {.ranks = static_cast<int>(options.ranks),
                                      .codec_threads = static_cast<int>(options.codec_threads),
                                      .lr = choices.optimiser.lr,
                                      .seed = static_cast<std::uint64_t>(options.seed)});
      const Replayed step = replay(advice.compute.times, trial.steps, choices.links, speeds, below);
      advice.ranked.push_back({.codec = method.recipe.said,
                               .quality = method.quality,
                               .plain = is_plain(method.recipe),
                               .seconds = step.seconds,
                               .waiting = step.waiting,
                               .work = work_of(trial.steps),
                               .bytes_sent = trial.bytes_sent,
                               .relative_error = trial.relative_error,
                               .aggregator = trial.aggregator,
                               .remark = trial.remark});
    } catch (const ConfigError& error) {
      if (&method == &methods.front()) throw;
      advice.refused.push_back({method.recipe.said, error.text(choices.spelling)});
    } catch (const NumericError& error) {
      if (&method == &methods.front()) throw;
      advice.refused.push_back({method.recipe.said, error.what()});
    }
  }
  rank_predictions(advice.ranked, least);
  return advice;
}

}  // namespace sotto
