#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "sotto/comm/inbox.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// The mailboxes of all ranks, which are threads of this process.
class PostOffice {
 public:
  explicit PostOffice(int ranks);
  Inbox& of(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(inboxes_.size()); }

  // close(): that rank has closed its mailbox. end(): the rank is lost for that reason, unless it has closed its
  // mailbox before.
  void close(int rank);
  void end(int rank, const std::string& reason);

 private:
  std::deque<Inbox> inboxes_;
};

std::unique_ptr<Mailbox> make_thread_mailbox(std::shared_ptr<PostOffice> office, int rank, std::size_t max_bytes,
                                             Deadline deadline);

}  // namespace sotto
