#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/launch/hosts.h"
#include "app/launch/message.h"
#include "app/launch/spawn.h"

namespace sotto {

// A word of a command, as a shell reads it.
std::string quoted(const std::string& word);

// How other machines are reached.
struct Ssh {
  std::string command = "ssh";  // with options of the user; a shell reads it
  std::string program;          // path of sotto on the hosts
};

// A command that ssh runs on a host. It ends with this object: at once here, and there when its stdin ends.
class Remote {
 public:
  // `command` is for the shell of the host. `input`: descriptor of a file for its stdin; -1: what send() says.
  Remote(const Ssh& ssh, const JobHost& host, const std::string& command, int input = -1);
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  void add_to(std::vector<pollfd>& polled) const;
  void look_after();                     // reads and writes what is possible without waiting, and notes its end
  std::optional<HostMessage> receive();  // one of its lines that look_after() has read
  void send(const HostMessage& message);
  void close();                                        // ends its stdin
  void kill();                                         // ends ssh at once
  std::optional<int> ended() const { return ended_; }  // the status of waitpid
  std::string last_words() const;  // the last lines that ssh or the command wrote to stderr; or its exit status

 private:
  void write_waiting();

  Process process_;
  Descriptor in_;
  std::string waiting_;  // to be written to its stdin
  std::optional<MessageReader> out_;
  std::string err_;
  std::optional<int> ended_;
};

// Runs until all have ended, or `done` says so. For commands that wait for nothing else.
void wait_for(std::deque<Remote>& remotes, const std::function<bool()>& done);

// A share's command on a host (share.h).
std::string share_command(const Ssh& ssh);

}  // namespace sotto
