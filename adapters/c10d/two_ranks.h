#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// Two ranks, here threads of this process, meet in a store on this machine, connect over the interface (or over the
// loopback if it is empty), and both run `work`. Throws the Error of the rank that failed.
void run_two_ranks(decltype(Transport::make) connect, const std::string& interface, std::chrono::milliseconds deadline,
                   const std::function<void(Communicator&)>& work);

// The check of a transport whose ranks meet in a store: two ranks sum a megabyte. Returns how long that took, in words.
std::string try_two_ranks(decltype(Transport::make) connect, const std::string& interface);

}  // namespace sotto
