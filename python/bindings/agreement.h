#pragma once

#include <cstdint>
#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto::python {

// Collective: the values of all ranks.
std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value);

// Collective: the first rank whose value is not that of rank 0, or -1.
int first_to_differ(Communicator& communicator, std::uint64_t value);
// The same of values that are there already.
int first_to_differ(const std::vector<std::uint64_t>& values);

}  // namespace sotto::python
