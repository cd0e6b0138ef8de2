#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "sotto/comm/group/meeting.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Makes a mailbox on exclusive Gloo connections. It has two threads per peer, one for receiving and one for sending,
// since Gloo's messages complete only while a thread waits for them.
//
// A message is a frame and its data. Up to 4096 bytes of it travel with the frame; the rest follows once the receiver
// has made room for the length that the frame announces.
std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, Deadline deadline);

}  // namespace sotto
