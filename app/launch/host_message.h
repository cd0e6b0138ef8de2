#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace sotto {

// What the launcher and its share of a job on another machine tell each other. It is sent as one line: "stop 15".
struct HostMessage {
  std::string kind;  // without blanks
  std::string text;
};

std::string to_line(
    const HostMessage& message);  // with its newline; line breaks and backslashes in the text are escaped

// Reads messages from a descriptor, which it makes non-blocking.
class HostMessageReader {
 public:
  explicit HostMessageReader(int descriptor);
  void add_to(std::vector<pollfd>& polled) const;  // adds nothing when it has ended
  bool read();                                     // reads what is there, without waiting; returns whether anything was
  bool ended() const { return ended_; }            // the other side has closed, or has sent an endless line
  std::optional<HostMessage> next();               // the next of the messages that were read

 private:
  int descriptor_;
  bool ended_ = false;
  std::string pending_;
};

}  // namespace sotto
