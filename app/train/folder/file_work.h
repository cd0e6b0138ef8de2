#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sotto/comm/communicator.h"

namespace sotto {

// File work that all ranks do at the same time. It may take much longer than an exchange, but the communicator's
// deadline is meant for peers, not for their disks. So while a rank works, it tells the others several times within
// that deadline that it is alive.
class FileWork {
 public:
  // The ranks wait for each other for at most `limit`.
  FileWork(Communicator& communicator, std::chrono::seconds limit) : communicator_(communicator), limit_(limit) {}

  // Collective. Runs `work` on every rank, on its own thread, and returns when all have ended. If `work` throws,
  // the exception is thrown on that rank, and a CommError with the same words on all others. CommError also if a rank
  // is not heard of within the communicator's deadline, or still works at the limit; `doing` names the work: "write the
  // checkpoint". This rank's own work has always ended when run() returns or throws.
  void run(std::string_view doing, const std::function<void()>& work);

 private:
  Communicator& communicator_;
  std::chrono::seconds limit_;
};

// Returns the text of rank `from` on all ranks. Collective.
inline std::string broadcast_text(std::string text, Communicator& communicator, int from = 0) {
  std::uint64_t size = text.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  communicator.broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

}  // namespace sotto
