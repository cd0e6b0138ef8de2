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
    v.option("group", group, "ranks of a group, with consecutive numbers; 0: the ranks of a host, as the launcher says",
             {0, 65535});
  }
  std::string problem() const;
};

// Sends floats inside a group of ranks, such as the ranks of a host, and uses the codec between groups. The ranks of a
// group average their gradients. Each rank owns a shard of that mean, and averages the shard with the ranks of the same
// place in the other groups, through memory and codec. Then the ranks of a group gather the shards. Thus every rank
// uses a share of the slow link. The memory belongs to the group: each rank keeps the part for its shard.
std::string hierarchical_suits(const HierarchicalOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_hierarchical(const HierarchicalOptions& options, AggregatorParts parts);

// Sets the group size of a hierarchical aggregator that has none yet; returns any other aggregator unchanged.
// ConfigError if it has another size.
AggregatorSpec with_group(AggregatorSpec aggregator, std::int64_t group);
// The group size of a hierarchical aggregator, 0 if it has none yet; nullopt for any other aggregator.
std::optional<std::int64_t> group_of(const AggregatorSpec& aggregator);
// The aggregator for dense steps that precede steps of `aggregator`. It splits memories among ranks in the same way.
AggregatorSpec dense_aggregator(const AggregatorSpec& aggregator);

}  // namespace sotto
