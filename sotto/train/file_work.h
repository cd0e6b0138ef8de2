#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// Work with files that all ranks do at the same time, and that may take each of them much longer than an exchange: the
// communicator's deadline is for peers, not for their disks. While a rank works it tells the others, several times
// within that deadline, that it lives.
class FileWork {
 public:
  // Ranks wait for each other at most so long.
  FileWork(Communicator& communicator, std::chrono::seconds limit) : communicator_(communicator), limit_(limit) {}

  // Collective: `work` on every rank, on a thread of its own; returns when all have ended. What it throws is thrown on
  // that rank, and on all others a CommError with the same words. CommError, too, where a rank is not heard of within
  // the communicator's deadline, or still works at the limit; `doing` says at what: "write the checkpoint". This rank's
  // own work has always ended when it returns or throws.
  void run(std::string_view doing, const std::function<void()>& work);

 private:
  Communicator& communicator_;
  std::chrono::seconds limit_;
};

}  // namespace sotto
