#pragma once

#include <cstddef>
#include <span>

namespace sotto {

// Goes through a pickle without making anything of it. WireError where its own numbers would have a reader take memory
// that the pickle's length does not justify: an index of the memo above the number of its bytes, or a string that is
// longer than what is left; and for what is no pickle.
void check_pickle(std::span<const std::byte> pickle);

}  // namespace sotto
