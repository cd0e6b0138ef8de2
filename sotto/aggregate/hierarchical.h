#pragma once

#include <optional>
#include <string>
#include <string_view>

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
};

// Dense inside a group of ranks, such as those of a host, and compressed between groups. The ranks of a group make
// their mean; each owns a shard of it, which it averages with the ranks of its own place in the other groups, through
// memory and codec; then the ranks of a group gather the shards. So every rank has a share of the slow link, and memory
// is the group's: each rank has that of its shard.
std::string hierarchical_suits(const Codec& codec, std::span<const BucketPlan> buckets);
std::string hierarchical_fits(std::string_view asked, const Codec& codec, std::span<const BucketPlan> buckets);
std::unique_ptr<Aggregator> make_hierarchical(AggregatorParts parts);
std::string canonical_hierarchical(const Sentence& sentence, const Call& call);
std::string help_hierarchical();

// The aggregator `asked`, with the size of groups where it has none yet; others as they are. ConfigError, where it says
// another size.
std::string with_group(std::string_view where, std::string_view asked, std::int64_t group);
// The size of its groups, 0 where it says none; nothing where `asked` has no groups.
std::optional<std::int64_t> group_of(std::string_view where, std::string_view asked);
// The aggregator of steps that send everything, in front of those of `asked`: one that holds memories as that one does.
std::string dense_aggregator(std::string_view where, std::string_view asked);

}  // namespace sotto
