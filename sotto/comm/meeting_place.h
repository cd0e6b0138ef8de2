#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sotto/comm/stop.h"
#include "sotto/core/timer.h"

namespace sotto {

class PortInUse final : public CommError {
 public:
  using CommError::CommError;
};

// Serves a TCPStore, port 0 being any free one: on that address alone where `host` is the loopback, else on all
// interfaces, since a machine's name may lead to another address here than on other machines. PortInUse, or CommError;
// ConfigError when the host is unknown.
c10::intrusive_ptr<c10d::TCPStore> serve_store(const std::string& host, std::uint16_t port,
                                               std::chrono::milliseconds deadline);

// Connects to a TCPStore that somebody serves there, within the deadline, or until `stop`. CommError when nobody does,
// or does not answer; ConfigError at once when the host is unknown.
c10::intrusive_ptr<c10d::TCPStore> join_store(const std::string& host, std::uint16_t port,
                                              std::chrono::milliseconds deadline, const Stop& stop);

}  // namespace sotto
