#pragma once

#include "sotto/comm/communicator.h"

namespace sotto::test {

// Trains with each algorithm whose result depends on no time, on quadratics, over this communicator and on threads of
// this process: they must come to the same bits, and send as many bytes. Collective; std::runtime_error says what
// differs.
void check_as_on_threads(Communicator& communicator);

}  // namespace sotto::test
