#include "sotto/algorithm/gossip.h"

#include "sotto/algorithm/whole_layout.h"
#include "sotto/topology/table.h"

namespace sotto {

Gossiper make_gossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                       const Communicator& communicator) {
  Topology topology = make_topology("--topology", options.topology, communicator.size());
  auto mixing = make_mixing("--mixing", options.mixing, topology);
  return {"--codec",
          options.codec,
          std::move(topology),
          std::move(mixing),
          whole_layout(buckets),
          communicator.rank(),
          std::make_shared<Workers>(options.codec_threads)};
}

Key key_of(const AlgorithmOptions& options, const Communicator& communicator, const StepInput& input) {
  return {options.seed, static_cast<std::uint16_t>(communicator.rank()), options.generation,
          static_cast<std::uint32_t>(input.step), input.lr};
}

void settle_quietly(CommThread& thread) noexcept {
  try {
    thread.wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace sotto
