#pragma once

#include <cstddef>

namespace sotto::testing {

// How often any thread of this process has called operator new. A program that counts must have
// tests/support/allocation_counter.cc, which replaces operator new, among its sources.
std::size_t allocation_count();
// The bytes that are allocated now, and the maximum so far.
std::size_t allocated_bytes();
std::size_t peak_allocated_bytes();

}  // namespace sotto::testing
