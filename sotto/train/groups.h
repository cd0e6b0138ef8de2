#pragma once

#include <string_view>

#include "sotto/comm/world.h"
#include "sotto/train/options.h"

namespace sotto {

// How many ranks are on each host, as the launcher says. ConfigError, which begins with `flag` and ends with `instead`,
// where they do not follow each other, as many on each host, or each is alone.
int ranks_of_host(std::string_view flag, std::string_view instead, const World& world);

// The options with the size of groups in `aggregator`, where that is one of groups and nobody said a size: the ranks of
// a host, as the launcher says. ConfigError, before the ranks meet, when ranks do not fall into such groups.
TrainOptions with_groups(TrainOptions options, const World& world);

}  // namespace sotto
