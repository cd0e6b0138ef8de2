#include "adapters/c10d/process_group.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/store.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/interfaces.h"

namespace sotto {

std::unique_ptr<Communicator> over_process_group(c10d::ProcessGroup& group, std::chrono::milliseconds deadline) {
  ignore_broken_pipes();
  GroupPtr backend;
  try {
    backend = group.getBackend(c10::DeviceType::CPU);
  } catch (const std::exception&) {
    throw ConfigError(
        fmt::format("the process group ({}) has no backend for CPU tensors; use a group that has, such "
                    "as torch.distributed.new_group(backend=\"gloo\")",
                    group.getBackendName()));
  }
  return on_group(std::move(backend), deadline);
}

std::shared_ptr<Meeting> meet(c10d::ProcessGroup& group) {
  const auto store = group.getStore();
  if (!store) {
    throw ConfigError(fmt::format("the process group ({}) has no store, through which connections could be made",
                                  group.getBackendName()));
  }
  return std::make_shared<Meeting>(from_c10d(store), store->getTimeout(), group.getRank(), group.getSize());
}

std::unique_ptr<Communicator> beside_process_group(c10d::ProcessGroup& group, std::shared_ptr<Meeting> meeting,
                                                   std::chrono::milliseconds deadline) {
  deadline = std::min(deadline, Deadline::longest);
  ignore_broken_pipes();
  meeting->wait_for_all(deadline);
  c10d::ProcessGroupGloo* gloo = nullptr;
  for (const auto& device : group.getDeviceTypes()) {
    if (gloo == nullptr) gloo = dynamic_cast<c10d::ProcessGroupGloo*>(group.getBackend(device.type()).get());
  }
  auto settings = gloo != nullptr ? c10d::ProcessGroupGloo::Options::create(deadline)
                                  : c10d::ProcessGroupGloo::Options::create_default(deadline);
  if (gloo != nullptr) settings->devices = gloo->getOptions()->devices;
  settings->timeout = deadline;
  settings->threads = 1;
  return on_own_connections(std::move(meeting), std::move(settings), group.getRank(), group.getSize(), deadline);
}

}  // namespace sotto
