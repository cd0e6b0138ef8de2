#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sotto/comm/stop.h"

namespace sotto {

class PortInUse final : public CommError {
 public:
  using CommError::CommError;
};

// Serves a TCPStore; port 0 means any free one. It listens on the loopback alone if `host` is the loopback, otherwise
// on all interfaces, since a machine's name may resolve to another address here than on other machines. PortInUse;
// CommError, also if `host` is another machine; Stopped if `stop` says so; ConfigError if the host is unknown.
c10::intrusive_ptr<c10d::TCPStore> serve_store(const std::string& host, std::uint16_t port,
                                               std::chrono::milliseconds deadline, const Stop& stop = {});

// Connects to a TCPStore served there, within the deadline, or until `stop` says so. CommError if nobody serves one, or
// it does not answer; ConfigError at once if the host is unknown. `server` is who should serve it, for errors.
c10::intrusive_ptr<c10d::TCPStore> join_store(const std::string& host, std::uint16_t port,
                                              std::chrono::milliseconds deadline, const Stop& stop,
                                              std::string_view server = "rank 0 or the launcher");

}  // namespace sotto
