#pragma once

#include <string>

#include "sotto/comm/world.h"

namespace sotto {

// ConfigError, with the names of those that there are, unless this machine has such a network interface.
void require_interface(const std::string& name);

// The numeric address of this machine from which packets go to the host of the store. ConfigError when that host is
// unknown, or when its name leads to this machine's loopback although there are ranks on other machines.
std::string address_towards(const World& world);

}  // namespace sotto
