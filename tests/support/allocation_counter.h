#pragma once

#include <cstddef>

namespace sotto::testing {

// How often operator new has been called in this process, by any thread. A program that counts lists
// tests/support/allocation_counter.cc among its sources, which replaces operator new there.
std::size_t allocation_count();

}  // namespace sotto::testing
