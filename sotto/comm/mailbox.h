#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sotto {

// A message that somebody sent.
struct Mail {
  int sender = 0;
  std::vector<std::byte> data;
};

// Messages from any rank, in the order in which they arrive: for algorithms in which nobody waits for a certain peer
// (parameter server, AD-PSGD, elastic groups). Messages of one sender stay in order. May be used from any thread.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void send(int to, std::span<const std::byte> data) = 0;
  // The next message, or nothing when `wait` has passed or the mailbox was cancelled. CommError when a peer is lost.
  virtual std::optional<Mail> poll(std::chrono::milliseconds wait) = 0;
  // Wakes every poll, now and later, without a message; other ranks are not disturbed.
  virtual void cancel() = 0;
};

}  // namespace sotto
