// The NCCL backend: c10d's NCCL, with copies between host and device.
#include "adapters/c10d/transports.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstdlib>
#define USE_C10D_NCCL  // otherwise its header is empty
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "adapters/c10d/staged.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// c10d's watchdog would end the process instead of reporting which rank is missing.
void leave_errors_to_us() {
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 0);
  ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 0);
}

}  // namespace

std::string nccl_library() { return fmt::format("NCCL {}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

void require_nccl(const World& world) {
  const int devices = at::detail::getCUDAHooks().deviceCount();
  if (devices >= world.local_size) return;
  throw ConfigError(fmt::format("{}: each rank needs its own GPU, and this host has {} for {}{}",
                                named("backend", "nccl"), devices, world.local_size,
                                devices == 0 ? ", or no driver for one; choose " + named("backend", "gloo") : ""));
}

std::unique_ptr<Communicator> connect_nccl(const World& world, const TransportOptions& options) {
  require_nccl(world);
  const std::chrono::milliseconds deadline = options.deadline;
  leave_errors_to_us();
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
  const auto connect = [rank = world.rank, size = world.size,
                        deadline](const c10::intrusive_ptr<c10d::Store>& store) -> c10::intrusive_ptr<c10d::Backend> {
    auto settings = c10d::ProcessGroupNCCL::Options::create();
    settings->timeout = 2 * deadline;  // our own deadline comes first
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(settings));
  };
  return make_staged(std::make_shared<Meeting>(world, "nccl", options.connect_deadline, options.stop),
                     {"nccl", device, connect}, world.rank, world.size, deadline);
}

}  // namespace sotto
