#pragma once

#include <string_view>

#include "sotto/comm/world.h"
#include "sotto/train/choices.h"

namespace sotto {

// How many ranks are on each host, as the launcher says. ConfigError, which begins with `asked` and ends with
// `instead`, where they do not follow each other, as many on each host, or each is alone.
int ranks_of_host(std::string_view asked, std::string_view instead, const World& world);

// The same with a size of the aggregator's groups, where it has groups and nobody said their size: the ranks of a host,
// as the launcher says. ConfigError, before the ranks meet, when ranks do not fall into such groups.
Choices with_groups(Choices choices, const World& world);

}  // namespace sotto
