#include "sotto/topology/peer_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/sentence.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

constexpr std::uint64_t most = 1'000'000'000'000;  // of epochs, or of steps that count as such, and of peers

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

// The canonical sentence of a topology with another number of peers.
std::string with_peers(std::string_view where, const std::string& topology, std::uint64_t peers) {
  const Sentence sentence = parse_sentence("topology", topology);
  const auto& arguments = sentence.calls.front().arguments;
  const auto found = std::ranges::find(arguments, "peers", &Argument::key);
  if (found == arguments.end()) {
    throw ConfigError(
        fmt::format("{}: `{}` always has the same peers; exponential, directed_exponential and others "
                    "that have `peers` in `sotto topology list` may have more later",
                    named(where), topology));
  }
  std::string changed = topology;
  return changed.replace(found->value_position, found->value.size(), std::to_string(peers));
}

}  // namespace

std::vector<TopologyPhase> peer_phases(std::string_view where, std::string_view schedule, std::string_view topology,
                                       int ranks, std::uint64_t steps_per_epoch) {
  const std::string canonical = make_topology("topology", topology, ranks).sentence();
  std::vector<TopologyPhase> phases;
  std::optional<std::uint64_t> last;
  for (std::string_view rest = schedule;;) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    const auto epoch = whole_number(pair.substr(0, colon));
    const auto peers = whole_number(pair.substr(std::min(colon + 1, pair.size())));
    const bool follows = epoch && (last ? *epoch > *last : *epoch == 0);
    if (!follows || !peers || *peers == 0) {
      throw ConfigError(
          fmt::format("{}: say from which epoch on there are how many peers, from epoch 0 on, as in "
                      "0:1,10:2; `{}` does not",
                      named(where, schedule), pair));
    }
    last = epoch;
    const std::uint64_t last_step = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t step = *epoch > last_step / steps_per_epoch ? last_step : *epoch * steps_per_epoch;
    phases.push_back({step, with_peers(where, canonical, *peers)});
    const std::size_t all = make_topology(where, phases.back().topology, ranks).peers();
    if (all < *peers) {
      throw ConfigError(fmt::format("{}: among {} ranks of `{}` each has {} peers, not {}", named(where, schedule),
                                    ranks, topology, all, *peers));
    }
    if (pair.size() == rest.size()) return phases;
    rest.remove_prefix(pair.size() + 1);
  }
}

}  // namespace sotto
