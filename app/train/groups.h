#pragma once

#include <string_view>

#include "sotto/comm/world.h"
#include "app/train/choices.h"

namespace sotto {

// The number of ranks per host, according to the launcher. ConfigError, whose text starts with `asked` and ends with
// `instead`, if ranks of a host are not consecutive, hosts have different numbers of ranks, or every rank is alone.
int ranks_of_host(std::string_view asked, std::string_view instead, const World& world);

// Returns the choices with the group size filled in, if the aggregator has groups and the user gave no size: the number
// of ranks per host. ConfigError, before the ranks meet, if the ranks cannot be divided into such groups.
Choices with_groups(Choices choices, const World& world);

}  // namespace sotto
