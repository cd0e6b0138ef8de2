#pragma once

#include <functional>
#include <span>

#include "laws.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Laws that the mailboxes of every communicator must keep, whatever its backend and number of ranks. All ranks run
// them.
std::span<const Law> mailbox_laws();
void check_mailbox_laws(Communicator& communicator);

// The last rank does not poll. A send to it must fail at the deadline with an error that names it, and the other ranks
// must still hear each other. REQUIRES three ranks and a short deadline.
void check_stalled_peer(Communicator& communicator);
// The last rank ends by `die` without telling the others. Every poll and send of theirs must fail soon with an error
// that names it, after they got all that it had sent before. REQUIRES a long deadline.
void check_lost_peer(Communicator& communicator, const std::function<void()>& die);

}  // namespace sotto
