#include "app/advise/advisor.h"

namespace sotto {
namespace {

constexpr std::int64_t most_gradients = 8;  // further ranks use these again

// How many other ranks compute at once: as many as there are cores for.
std::size_t companions_on(const Host& host) {
  const std::int64_t at_once = std::min(host.ranks, Host::machine_cores() / host.threads);
  return static_cast<std::size_t>(std::max<std::int64_t>(1, at_once) - 1);
}

double work_in(const Trace& trace) {
  double work = trace.rest;
  for (const TracedExchange& exchange : trace.exchanges) work += exchange.work;
  return work;
}

// The work of the busiest rank in a step, in seconds: the mean over the steps.
double work_of(std::span<const StepTrace> steps) {
  double most = 0;
  for (std::size_t rank = 0; rank < steps.front().size(); ++rank) {
    double work = 0;
    for (const StepTrace& step : steps) {
      for (const Trace& bucket : step[rank].buckets) work += work_in(bucket);
    }
    most = std::max(most, work / static_cast<double>(steps.size()));
  }
  return most;
}

// Whether the method sends everything, as floats or in a shorter type.
bool is_plain(const Recipe& recipe) {
  constexpr std::array<std::string_view, 3> casts{"f32", "f16", "bf16"};
  return std::ranges::find(casts, recipe.text()) != casts.end();
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
      const TriedMethod tried = try_method(method.recipe, advice.compute,
                                           {.ranks = static_cast<int>(options.ranks),
                                            .codec_threads = static_cast<int>(options.codec_threads),
                                            .lr = choices.optimiser.lr,
                                            .seed = static_cast<std::uint64_t>(options.seed)});
      const Replayed step = replay(advice.compute.times, tried.steps, choices.links, speeds, below);
      advice.ranked.push_back({.codec = method.recipe.source_text,
                               .quality = method.quality,
                               .plain = is_plain(method.recipe),
                               .seconds = step.seconds,
                               .waiting = step.waiting,
                               .work = work_of(tried.steps),
                               .bytes_sent = tried.bytes_sent,
                               .relative_error = tried.relative_error,
                               .aggregator = tried.aggregator,
                               .remark = tried.remark});
    } catch (const ConfigError& error) {
      if (&method == &methods.front()) throw;
      advice.refused.push_back({method.recipe.source_text, error.text(choices.spelling)});
    } catch (const NumericError& error) {
      if (&method == &methods.front()) throw;
      advice.refused.push_back({method.recipe.source_text, error.what()});
    }
  }
  rank_predictions(advice.ranked, least);
  return advice;
}

}  // namespace sotto
