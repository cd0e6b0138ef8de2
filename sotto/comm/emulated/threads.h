#pragma once

#include <chrono>
#include <functional>

#include "sotto/comm/communicator.h"

namespace sotto {

// Ranks as threads of one process, without sockets: for dry runs, tests and benchmarks. Runs `body` once per rank and
// waits for all. If one throws, the pending operations of the others fail at once, naming it, and the first exception
// is rethrown.
void run_threads(int ranks, std::chrono::milliseconds deadline,
                 const std::function<void(Communicator& communicator)>& body);

}  // namespace sotto
