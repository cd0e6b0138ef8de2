#pragma once

namespace sotto {

// The number of threads that torch computes with. The order of sums depends on it, and so do their last bits.
int compute_threads();

}  // namespace sotto
