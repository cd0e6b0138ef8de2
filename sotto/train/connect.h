#pragma once

#include <memory>

#include "sotto/comm/communicator.h"
#include "sotto/comm/world.h"
#include "sotto/train/choices.h"

namespace sotto {

// Meets the other ranks over the chosen transport, and adds the emulated links, if any.
std::unique_ptr<Communicator> connect_ranks(const Choices& choices, const World& world);

}  // namespace sotto
