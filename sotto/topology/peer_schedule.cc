#include "sotto/topology/peer_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::uint64_t largest = 1'000'000'000'000;  // the largest epoch (or step) and number of peers

std::optional<std::uint64_t> whole_number(std::string_view text) {
  const auto number = parsed<std::uint64_t>(text);
  return number && *number <= largest ? number : std::nullopt;
}

}  // namespace

std::vector<TopologyPhase> read_peer_schedule(std::string_view option, std::string_view text,
                                              const TopologySpec& topology, int ranks) {
  std::vector<TopologyPhase> phases;
  for (std::string_view rest = text;;) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    const auto epoch = whole_number(pair.substr(0, colon));
    const auto peers = whole_number(pair.substr(std::min(colon + 1, pair.size())));
    const bool follows = epoch && (phases.empty() ? *epoch == 0 : *epoch > phases.back().first);
    if (!follows || !peers || *peers == 0) {
      throw ConfigError(
          fmt::format("{}: say from which epoch on there are how many peers, from epoch 0 on, as in "
                      "0:1,10:2; `{}` does not",
                      named(option, text), pair));
    }
    phases.push_back({*epoch, topology});
    if (!set_number(phases.back().topology.options, "peers", static_cast<double>(*peers))) {
      throw ConfigError(
          fmt::format("{}: `{}` always has the same peers; exponential, directed_exponential and others "
                      "that have `peers` in `sotto topology list` may have more later",
                      named(option), topology.text()));
    }
    const std::size_t all = make_topology(phases.back().topology, ranks).peers();
    if (all < *peers) {
      throw ConfigError(fmt::format("{}: among {} ranks of `{}` each has {} peers, not {}", named(option, text), ranks,
                                    topology.said(), all, *peers));
    }
    if (pair.size() == rest.size()) return phases;
    rest.remove_prefix(pair.size() + 1);
  }
}

std::vector<TopologyPhase> by_steps(std::vector<TopologyPhase> epochs, const EpochLength& epoch) {
  for (TopologyPhase& phase : epochs) phase.first = epoch.first_step_in(phase.first);
  return epochs;
}

}  // namespace sotto
