#pragma once

#include <memory>

#include "sotto/comm/communicator.h"

// The handles that other handles are made of.

struct sotto_group {
  std::shared_ptr<sotto::Communicator> communicator;
  bool encrypts = false;
};
