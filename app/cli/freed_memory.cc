#include "app/cli/freed_memory.h"

#include <cstdlib>  // defines __GLIBC__, if that is the library

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace sotto {

void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
#endif
}

}  // namespace sotto
