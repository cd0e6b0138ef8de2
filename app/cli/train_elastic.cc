#include "app/cli/train_elastic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "app/cli/rank_range.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"

namespace sotto {

std::int64_t read_elastic(const std::string& text, std::int64_t& ranks, std::string_view ranks_said) {
  if (text.empty()) return 0;
  const std::string said = "--elastic " + text;
  const RankRange range = read_rank_range(said, text);
  if (range.most && ranks != 0 && ranks != *range.most) {
    throw ConfigError(fmt::format("{}: {} {}; give MIN alone", said, ranks_said, ranks));
  }
  ranks = range.most.value_or(ranks);
  if (range.least > std::max<std::int64_t>(1, ranks)) {
    throw ConfigError(fmt::format("{}: the job has {} ranks", said, std::max<std::int64_t>(1, ranks)));
  }
  return range.least;
}

void require_elastic(std::string_view option, const Choices& choices, std::int64_t least, std::int64_t most) {
  const auto refuse = [&](const std::string& what, std::string_view why) {
    throw ConfigError(fmt::format("--{}: {} {}", option, what, why));
  };
  const AlgorithmSpec& algorithm = choices.algorithm;
  if (!algorithm.entry->with(algorithm.options).elastic) {
    std::vector<std::string> others;
    for (const AlgorithmEntry& entry : algorithm_table()) {
      if (entry.with(entry.options()).elastic) others.push_back(fmt::format("`{}`", entry.name));
    }
    refuse("`" + choices.options.algorithm + "`",
           fmt::format("cannot continue without some of its ranks; {} can", fmt::join(others, ", ")));
  }
  if (choices.options.node_size > 1) refuse(named("node-size"), "makes groups of one size; leave it out");
  if (group_of(choices.recipe.aggregator))
    refuse("`hierarchical`", "has groups of one size; choose another --aggregator");
  for (std::int64_t ranks = least; ranks <= most; ++ranks) {
    try {
      idle_ranks(algorithm, static_cast<int>(ranks));
      if (!algorithm.entry->graph.used) continue;
      check_graph(algorithm, choices.topology, choices.mixing, static_cast<int>(ranks));
    } catch (const ConfigError& error) {
      refuse(fmt::format("with {} rank{}:", ranks, ranks == 1 ? "" : "s"),
             error.text([](std::string_view name, std::string_view value) { return named(name, value); }));
    }
  }
}

}  // namespace sotto
