#pragma once

namespace sotto {

// The next step allocates again what a step frees on the thread that computes. By default glibc returns large blocks to
// the system; mapping and zeroing them anew is a fifth of each step (docs/performance.md). From now on they are kept.
void keep_freed_memory();

}  // namespace sotto
