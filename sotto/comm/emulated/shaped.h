#pragma once

#include <memory>

#include "sotto/comm/communicator.h"
#include "sotto/comm/emulated/links.h"

namespace sotto {

// Wraps a communicator and delays messages as such links would. The result is never faster than the link. It is slower
// by the time that the inner communicator takes, so the emulation is accurate if that time is short. A sender's
// messages leave one after the other in the given order; messages of several senders to one rank queue there in order
// of arrival. A send returns when its message has been delivered, including the latency. Clones and mailboxes share the
// link. Collectives run over exchange(), not over the inner communicator's collectives, so that their messages are
// delayed, too. An exchange that takes longer than the deadline fails, as on a real link. Traffic is that of the inner
// communicator: the emulation itself sends nothing. All ranks must be given the same links.
std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, const Links& links);

}  // namespace sotto
