#include "adapters/c10d/compute_threads.h"

#include <ATen/Parallel.h>

namespace sotto {

int compute_threads() { return at::get_num_threads(); }

void set_compute_threads(int count) { at::set_num_threads(count); }

}  // namespace sotto
