#include "sotto/comm/compute_threads.h"

#include <ATen/Parallel.h>

namespace sotto {

int compute_threads() { return at::get_num_threads(); }

}  // namespace sotto
