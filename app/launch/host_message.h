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
  void add_to(std::vector<pollfd>& polled) const;  // nothing when it has ended
  bool read();                                     // what is there, without waiting; whether anything was
  bool ended() const { return ended_; }            // the other side has closed, or has sent an endless line
  std::optional<HostMessage> next();               // of those that were read

 private:
  int descriptor_;
  bool ended_ = false;
  std::string pending_;
};

}  // namespace sotto
