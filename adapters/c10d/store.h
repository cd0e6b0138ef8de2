#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/group/store.h"

namespace sotto {

// Makes a Store of a store of c10d. If the latter is a part of a store that as_c10d() made, a reason that ends waits
// there ends them here, too.
StorePtr from_c10d(c10::intrusive_ptr<c10d::Store> store);

// Makes a store of c10d of our Store. Waiting for keys ends after `timeout`, or when there is no progress, with c10d's
// DistStoreError.
c10::intrusive_ptr<c10d::Store> as_c10d(StorePtr store, std::chrono::milliseconds timeout);

}  // namespace sotto
