#pragma once

#include <memory>

#include "sotto/comm/communicator.h"
#include "sotto/comm/links.h"

namespace sotto {

// Holds messages back as such links would, around any communicator: never faster than the link, and slower by what the
// inner communicator itself takes, so the emulation is close where that is small. A sender's messages leave one after
// the other in the order given; what several senders send to one rank queues there in the order in which it arrives. A
// send returns when its message has been handed over, latency included. Clones and mailboxes share the link.
// Collectives run over exchange(), never as the inner communicator's own, so that their messages are held back too. An
// exchange that takes longer than the deadline fails, as on a real link. Traffic is the inner communicator's: the
// emulation itself sends nothing. All ranks must be given the same links.
std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, const Links& links);

}  // namespace sotto
