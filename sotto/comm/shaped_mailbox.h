#pragma once

#include <memory>

#include "sotto/comm/link.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Delays the messages of another mailbox as the link would; a communicator may share the link.
std::unique_ptr<Mailbox> make_shaped_mailbox(std::unique_ptr<Mailbox> inner, std::shared_ptr<Link> link);

}  // namespace sotto
