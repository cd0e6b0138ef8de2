#pragma once

#include "sotto/comm/communicator.h"

namespace sotto::test {

// Trains on quadratics with each algorithm whose result does not depend on time, over this communicator and on threads
// of this process. Both must come to the same bits and send as many bytes; otherwise a std::runtime_error says what
// differs. Collective.
void check_as_on_threads(Communicator& communicator);

}  // namespace sotto::test
