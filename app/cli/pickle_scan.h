#pragma once

#include <cstddef>
#include <span>

namespace sotto {

// Reads through a pickle without building its objects. WireError if its numbers would make a reader allocate memory
// that the pickle's length does not justify (a memo index above the number of its bytes, or a string that is longer
// than the remaining bytes), or if it is no pickle.
void check_pickle(std::span<const std::byte> pickle);

}  // namespace sotto
