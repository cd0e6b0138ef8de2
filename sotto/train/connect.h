#pragma once

#include <memory>

#include "sotto/comm/communicator.h"
#include "sotto/comm/links.h"
#include "sotto/comm/world.h"
#include "sotto/train/options.h"

namespace sotto {

// Meets the other ranks over the backend that the options say, behind the links that they emulate, if any.
std::unique_ptr<Communicator> connect_ranks(const TrainOptions& options, const World& world, const Links& links);

}  // namespace sotto
