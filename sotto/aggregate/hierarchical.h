#pragma once

#include <optional>
#include <string>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/options.h"

namespace sotto {

struct HierarchicalOptions {
  std::string inner = "all_reduce";
  std::string outer = "auto";
  std::int64_t group = 0;
  void visit(OptionVisitor& v) {
    v.option("inner", inner, "aggregator of the ranks of a group, which sends floats as they are");
    v.option("outer", outer, "aggregator between groups, with the codec");
    v.option("group", group, "ranks of a group, which follow each other; 0: those of a host, as the launcher says",
             {0, 65535});
  }
  std::string problem() const;
};

// Dense inside a group of ranks, such as those of a host, and compressed between groups. The ranks of a group make
// their mean; each owns a shard of it, which it averages with the ranks of its own place in the other groups, through
// memory and codec; then the ranks of a group gather the shards. So every rank has a share of the slow link, and memory
// is the group's: each rank has that of its shard.
std::string hierarchical_suits(const HierarchicalOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_hierarchical(const HierarchicalOptions& options, AggregatorParts parts);

// The same aggregator, with the size of groups where it has none yet; others as they are. ConfigError, where it says
// another size.
AggregatorSpec with_group(AggregatorSpec aggregator, std::int64_t group);
// The size of its groups, 0 where it says none; nothing where it has no groups.
std::optional<std::int64_t> group_of(const AggregatorSpec& aggregator);
// The aggregator of steps that send everything, in front of those of `aggregator`: one that holds memories as that one
// does.
AggregatorSpec dense_aggregator(const AggregatorSpec& aggregator);

}  // namespace sotto
