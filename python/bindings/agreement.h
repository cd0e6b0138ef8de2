#pragma once

#include <cstdint>

#include "sotto/comm/communicator.h"

namespace sotto::python {

// Collective: the first rank whose value is not that of rank 0, or -1.
int first_to_differ(Communicator& communicator, std::uint64_t value);

}  // namespace sotto::python
