#pragma once

#include <memory>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Workers send gradients to servers, each of which owns some buckets, makes the steps of these with its optimiser, and
// sends the model back, coded both ways (Li et al., OSDI 2014). In mode `sync` an update is the mean of `gradients` of
// the workers, taken at the same model; in `async` each gradient is one as it comes (Dean et al., NeurIPS 2012); in
// `stale`, too, but no worker is more than `bound` steps ahead of the slowest (Ho et al., NeurIPS 2013).
std::unique_ptr<Algorithm> make_parameter_server(const Sentence& sentence, const Call& call,
                                                 const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                                 Communicator& communicator);
std::string help_parameter_server();
// With dedicated servers: they are the first ranks.
int idle_parameter_server(const Sentence& sentence, const Call& call, int ranks);
// Every update is of all workers.
bool parameter_server_in_step(const Sentence& sentence, const Call& call, int ranks);

}  // namespace sotto
