#pragma once

#include <cstdint>
#include <functional>

#include "sotto/comm/stop.h"
#include "sotto/comm/world.h"

namespace sotto {

// Runs a relay (relay.h) there until `stop` returns a signal; returns that. Calls `listens` with its port. CommError if
// it cannot listen, ConfigError if the host is unknown.
int serve_relay(const MeetingPlace& place, const std::function<void(std::uint16_t port)>& listens, const Stop& stop);

}  // namespace sotto
