#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"
#include "sotto/task/task.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/choices.h"

namespace sotto {

// What makes ranks one run, and a run the one that a checkpoint is of.

// What a checkpoint must have in common with the run that continues it. `method` is canonical.
checkpoint::Metadata run_identity(const Choices& choices, const std::string& method, const Layout& parameters,
                                  int ranks);

// All below are collective. ConfigError on every rank where a rank has another number than rank 0: "rank 2 OTHERWISE".
void require_same(std::uint64_t mine, std::string_view otherwise, Communicator& communicator);
void require_same_parameters(std::span<const float> parameters, std::string_view otherwise, Communicator& communicator);

// Ranks that were started by hand with different flags must not train a mixture: these options, these links, as much
// data and the same parameters to begin with.
void require_same_start(const Choices& choices, Task& task, Communicator& communicator);

}  // namespace sotto
