#pragma once

#include <cstddef>

namespace sotto::testing {

// How often operator new has been called in this process, by any thread. A program that counts lists
// tests/support/allocation_counter.cc among its sources, which replaces operator new there.
std::size_t allocation_count();
// Bytes that are allocated now, and the most that ever were at once.
std::size_t allocated_bytes();
std::size_t peak_allocated_bytes();

}  // namespace sotto::testing
