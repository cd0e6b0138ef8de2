#pragma once

namespace sotto {

// Makes glibc keep freed memory. Each step allocates again what the step before freed, and by default glibc returns
// large blocks to the system; to map and zero them again takes a fifth of each step (docs/performance.md).
void keep_freed_memory();

}  // namespace sotto
