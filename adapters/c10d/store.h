#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/comm/group/store.h"

namespace sotto {

// A store of c10d as ours. If it is a part of what as_c10d() made, what ends waits there ends them here, too.
StorePtr from_c10d(c10::intrusive_ptr<c10d::Store> store);

// A store of ours as c10d's. Waiting for keys ends after `timeout`, or when there is no progress, with c10d's
// DistStoreError.
c10::intrusive_ptr<c10d::Store> as_c10d(StorePtr store, std::chrono::milliseconds timeout);

}  // namespace sotto
