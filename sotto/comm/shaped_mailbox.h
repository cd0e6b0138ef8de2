#pragma once

#include <memory>

#include "sotto/comm/link.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Holds the messages of another mailbox back as the link would, which a communicator may share.
std::unique_ptr<Mailbox> make_shaped_mailbox(std::unique_ptr<Mailbox> inner, std::shared_ptr<Link> link);

}  // namespace sotto
