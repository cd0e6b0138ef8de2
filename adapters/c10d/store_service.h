#pragma once

#include "sotto/comm/group/store.h"

namespace sotto {

// Serves and joins stores of c10d (TCPStore), as torchrun and torch.distributed do.
const StoreService& c10d_stores();

}  // namespace sotto
