#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "sotto/comm/mailbox.h"
#include "sotto/comm/mpi_session.h"

namespace sotto {

// A mailbox on a group of MPI of its own, which it frees: one thread, which looks by turns whether a message has come
// from each peer, and whether what was sent has been taken; with longer and longer pauses while nothing happens.
//
// The tag of a message is its kind, and MPI knows its length, so there is no frame. One message to each peer is under
// way at a time, by MPI_Issend: it counts as sent when the peer has begun to take it, which it does when there is room.
// So nothing piles up inside MPI.
std::unique_ptr<Mailbox> make_mpi_mailbox(std::shared_ptr<MpiSession> session, MPI_Comm group, std::size_t max_bytes,
                                          std::chrono::milliseconds deadline);

}  // namespace sotto
