#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "sotto/comm/communicator.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

using GroupPtr = c10::intrusive_ptr<c10d::Backend>;
using GlooSettings = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;

// Makes a communicator on exclusive Gloo connections; its clones and mailboxes make others. CommError if the
// connections cannot be made within the deadline; Stopped if `stop` says so in the meantime.
std::unique_ptr<Communicator> on_own_connections(std::shared_ptr<Meeting> meeting, GlooSettings settings, int rank,
                                                 int size, std::chrono::milliseconds deadline, const Stop& stop = {});

// Makes a communicator on a group that somebody else made and will close. Groups other than Gloo's are polled.
std::unique_ptr<Communicator> on_group(GroupPtr group, std::chrono::milliseconds deadline);

// Gloo's error text, without source files and stack traces.
std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline);

// Makes a mailbox on exclusive Gloo connections. It has two threads per peer, one for receiving and one for sending,
// since Gloo's messages complete only while a thread waits for them.
//
// A message is a frame and its data. Up to 4096 bytes of the data travel with the frame; the rest follows once the
// receiver has made room for the length that the frame announces.
std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, Deadline deadline);

}  // namespace sotto
