#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "sotto/comm/c10d.h"

namespace sotto {

Connect gloo_connect(c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> settings, int rank, int size);

}  // namespace sotto
