#pragma once

#include <memory>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// An emulated link: every rank's egress and ingress carry `bits_per_second`, and each message is `latency` seconds under way.
struct LinkShape {
  double bits_per_second = 0;  // 0: unlimited
  double latency = 0;          // seconds
};

// "100mbit", "1gbit,5ms", "20kbit, 200us"; ConfigError names `where`.
LinkShape parse_link(std::string_view where, std::string_view text);

// Holds messages back as such a link would, around any communicator. Collectives run over exchange(), never as the inner
// communicator's own, so that their messages are held back too.
std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, LinkShape shape);

}  // namespace sotto
