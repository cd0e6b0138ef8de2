#pragma once

#include <memory>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// An emulated link: every rank's egress and ingress carry `bits_per_second`, and each message is `latency` seconds
// under way.
struct LinkShape {
  double bits_per_second = 0;  // 0: unlimited
  double latency = 0;          // seconds
};

// "100mbit", "1gbit,5ms", "20kbit, 200us", "50ms": a rate (bit, kbit, mbit, gbit), a latency (us, ms, s) or both;
// ConfigError names `where`.
LinkShape parse_link(std::string_view where, std::string_view text);

// Holds messages back as such a link would, around any communicator: never faster than the link, and slower by what the
// inner communicator itself takes, so the emulation is close where that is small. A sender's messages leave one after
// the other in the order given; what several senders send to one rank queues there in the order in which it arrives. A
// send returns when its message has been handed over, latency included. Clones share the link. Collectives run over
// exchange(), never as the inner communicator's own, so that their messages are held back too. An exchange that takes
// longer than the deadline fails, as on a real link. Traffic is the inner communicator's: the emulation itself sends
// nothing.
std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, LinkShape shape);

}  // namespace sotto
