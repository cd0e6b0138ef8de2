#pragma once

#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// For the check of a transport whose ranks meet in a store: two ranks, here threads, meet on this machine and average a
// megabyte over the interface, or over the loopback if it is empty. Returns how long that took, in words. Throws the
// Error of the rank that failed.
std::string try_two_ranks(decltype(Transport::connect) connect, const std::string& interface);

}  // namespace sotto
