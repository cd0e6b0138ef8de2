#include "sotto/train/groups.h"

#include <fmt/format.h>

#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"

namespace sotto {

int ranks_of_host(std::string_view flag, std::string_view instead, const World& world) {
  if (world.size % world.local_size != 0 || world.rank % world.local_size != world.local_rank) {
    throw ConfigError(fmt::format(
        "{}: rank {} of {} is number {} of {} on its host; groups are ranks that follow each other, as many on each "
        "host: start them so (srun --distribution=block), or say {}",
        flag, world.rank, world.size, world.local_rank, world.local_size, instead));
  }
  if (world.size > 1 && world.local_size == 1) {
    throw ConfigError(fmt::format(
        "{}: as {} says, or does not say, each of {} ranks is alone on its host, and no group has more than one; say "
        "{}",
        flag, world.starter, world.size, instead));
  }
  return world.local_size;
}

TrainOptions with_groups(TrainOptions options, const World& world) {
  const AggregatorSpec aggregator = read_aggregator(parse_sentence("aggregator", options.aggregator));
  auto group = group_of(aggregator);
  if (!group) return options;
  if (*group == 0) {
    group = ranks_of_host("--aggregator " + options.aggregator, "--group-size", world);
    options.aggregator = with_group(aggregator, *group).text();
  }
  if (world.size % *group != 0) {
    throw ConfigError(
        fmt::format("--aggregator {}: {} ranks do not fall into groups of {}; say a --group-size that "
                    "divides them",
                    options.aggregator, world.size, *group));
  }
  return options;
}

}  // namespace sotto
