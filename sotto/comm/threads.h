#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "sotto/comm/communicator.h"

namespace sotto {

// Ranks as threads of one process, for tests: no sockets. Runs `body` once a rank and waits for all; when one throws,
// the others' pending operations fail at once, naming it, and the first exception is thrown again.
void run_threads(int ranks, std::chrono::milliseconds deadline,
                 const std::function<void(Communicator& communicator)>& body);

}  // namespace sotto
