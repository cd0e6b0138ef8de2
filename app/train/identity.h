#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "app/task/task.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/options/choices.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/layout.h"

namespace sotto {

// The name of Task::meaning() in the identity of a checkpoint. An empty meaning has no entry there.
inline constexpr const char* data_meaning = "data-meaning";

// Checks that ranks belong to one run, and that a checkpoint belongs to the run.

// The identity: what a checkpoint must have in common with the run that continues it. `method` is canonical text.
checkpoint::Metadata run_identity(const Choices& choices, const std::string& method, const Layout& parameters,
                                  int ranks);
// The same, and the task's data.
checkpoint::Metadata run_identity(const Choices& choices, const std::string& method, Task& task, int ranks);

// ConfigError if the checkpoint in `folder` has the identity `found` and it differs from `wanted`.
void require_identity(const std::string& folder, const checkpoint::Metadata& found, const checkpoint::Metadata& wanted);

// ConfigError, which says what to do instead, if a run of this identity cannot continue from the checkpoint in
// `folder`: the checkpoint is of another model, other data, and so on. Another number of ranks is an error only if the
// algorithm needs the same one and the group of the job does not change (`changes`). The codec is not compared, since
// the steps at which it changes depend on the checkpoint's course. Returns whether the number of ranks is the same.
bool require_resumable(const Choices& choices, const std::string& folder, const Manifest& manifest,
                       checkpoint::Metadata identity, bool changes);

// These functions are collective. ConfigError on every rank if `mine` is not the same on all ranks: "rank 2 OTHERWISE".
void require_same(std::uint64_t mine, std::string_view otherwise, Communicator& communicator);
// Error on every rank if replicas differ after this step: no option is wrong, but no rank can continue.
void require_same_parameters(std::span<const float> parameters, std::uint64_t step, Communicator& communicator);

// Ranks that were started by hand with different flags must not train a mixture: they need equal options, equal links,
// the same data (of which a sample is compared) and equal initial parameters. If the group `may_change`, also the same
// run folder, since another rank may take the place of rank 0.
void require_same_start(const Choices& choices, Task& task, Communicator& communicator, bool may_change);

}  // namespace sotto
