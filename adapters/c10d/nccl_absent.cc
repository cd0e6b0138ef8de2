// Replaces the NCCL backend if LibTorch has no NCCL.
#include "adapters/c10d/transports.h"
#include "sotto/core/error.h"

namespace sotto {

std::string nccl_library() { return {}; }

void require_nccl(const World& /*world*/) {
  throw ConfigError(named("backend", "nccl") +
                    ": this program was built without NCCL; build it against a CUDA wheel of torch, which brings NCCL, "
                    "with the headers of the CUDA toolkit");
}

std::unique_ptr<Communicator> connect_nccl(const World& world, const TransportOptions& /*options*/) {
  require_nccl(world);
  return nullptr;
}

}  // namespace sotto
