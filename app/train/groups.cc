#include "app/train/groups.h"

#include <fmt/format.h>

#include "sotto/aggregate/hierarchical.h"
#include "sotto/core/error.h"

namespace sotto {

int ranks_of_host(std::string_view asked, std::string_view instead, const World& world) {
  if (world.size % world.local_size != 0 || world.rank % world.local_size != world.local_rank) {
    throw ConfigError(fmt::format(
        "{}: rank {} of {} is number {} of {} on its host; groups are ranks that follow each other, as many on each "
        "host: start them so (srun --distribution=block), or say {}",
        asked, world.rank, world.size, world.local_rank, world.local_size, instead));
  }
  if (world.size > 1 && world.local_size == 1) {
    throw ConfigError(fmt::format(
        "{}: as {} says, or does not say, each of {} ranks is alone on its host, and no group has more than one; say "
        "{}",
        asked, world.starter, world.size, instead));
  }
  return world.local_size;
}

Choices with_groups(Choices choices, const World& world) {
  AggregatorSpec& aggregator = choices.recipe.aggregator;
  if (!aggregator) return choices;
  auto group = group_of(aggregator);
  if (!group) return choices;
  std::string& said = choices.options.aggregator;
  if (*group == 0) {
    group = ranks_of_host(named("aggregator", said), named("group-size"), world);
    aggregator = with_group(aggregator, *group);
    said = aggregator.text();
  }
  if (world.size % *group != 0) {
    throw ConfigError(fmt::format("{}: {} ranks do not fall into groups of {}; say a {} that divides them",
                                  named("aggregator", said), world.size, *group, named("group-size")));
  }
  return choices;
}

}  // namespace sotto
