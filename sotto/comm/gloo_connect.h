#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "sotto/comm/c10d.h"

namespace sotto {

Connect gloo_connect(c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> settings, int rank, int size);

// Gloo writes to its sockets without MSG_NOSIGNAL, so a peer's death would kill this process too. From now on SIGPIPE
// is ignored, unless the program handles it.
void ignore_broken_pipes();

}  // namespace sotto
