#pragma once

#include "sotto/comm/world.h"
#include "sotto/train/options.h"

namespace sotto {

// The options with the size of groups in `aggregator`, where that is one of groups and nobody said a size: the ranks of
// a host, as the launcher says. ConfigError, before the ranks meet, when ranks do not fall into such groups.
TrainOptions with_groups(TrainOptions options, const World& world);

}  // namespace sotto
