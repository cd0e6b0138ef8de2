#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "sotto/comm/mailbox.h"
#include "sotto/comm/meeting.h"

namespace sotto {

// A mailbox on Gloo connections of its own, which nobody else uses. Two threads a peer: one waits for what it sends,
// one for what it takes, since Gloo's messages complete only when waited for.
//
// A message is a frame and its data; up to 4096 bytes of it travel with the frame, and the rest behind it, once the
// receiver has made room of the length that the frame announces.
std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, std::chrono::milliseconds deadline);

}  // namespace sotto
