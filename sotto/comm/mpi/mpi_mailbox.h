#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "sotto/comm/mailbox.h"
#include "sotto/comm/mpi/session.h"

namespace sotto {

// Makes a mailbox on its own MPI group, which it frees. Its one thread checks in turn whether a message has come from
// each peer, and whether sent messages were taken; the pauses grow while nothing happens.
//
// The tag of a message is its kind, and MPI knows its length, so there is no frame. One message to each peer is in
// transit at a time, by MPI_Issend: it counts as sent when the peer has started to receive it, which needs room there.
// So no messages pile up inside MPI.
std::unique_ptr<Mailbox> make_mpi_mailbox(std::shared_ptr<MpiSession> session, MPI_Comm group, std::size_t max_bytes,
                                          Deadline deadline);

}  // namespace sotto
