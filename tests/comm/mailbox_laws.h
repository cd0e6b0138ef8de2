#pragma once

#include <functional>
#include <span>

#include "laws.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// What the mailboxes of every communicator must do, whatever its backend and number of ranks: run by all ranks.
std::span<const Law> mailbox_laws();
void check_mailbox_laws(Communicator& communicator);

// The last rank does not poll: who sends to it fails at the deadline, which must be short, and names it; the others
// still hear each other. REQUIRES three ranks.
void check_stalled_peer(Communicator& communicator);
// The last rank ends by `die`, without a word: every poll and send of the others fails soon, and names it; but what it
// had sent before is handed out. REQUIRES a long deadline.
void check_lost_peer(Communicator& communicator, const std::function<void()>& die);

}  // namespace sotto
