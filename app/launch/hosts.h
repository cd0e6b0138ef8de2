#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/launch/host_message.h"
#include "app/launch/spawn.h"

namespace sotto {

// A machine on which ranks of a job run.
struct JobHost {
  std::string name;  // as ssh is told: "node1", "me@10.0.0.1", "fd00::1"
  std::int64_t ranks = 1;
};

// Reads a list, "node1:4,me@node2:4,[fd00::1]:2", or else the file of this name, which has a host a line. Lines are as
// in a list, as for mpirun ("node1 slots=4"), as Grid Engine writes them ("node1 4 all.q@node1 UNDEFINED"), or as in
// /etc/hosts ("10.0.0.1 node1": the first word counts). A host without a number has one rank; in a file it has as many
// ranks as lines, as PBS writes them. ConfigError, which names the line, for anything else, or if a host's number is
// given twice.
std::vector<JobHost> read_hosts(const std::string& text);

std::int64_t ranks_of(const std::vector<JobHost>& hosts);

// Quotes a word of a command for a shell.
std::string quoted(const std::string& word);

// How other machines are reached.
struct Ssh {
  std::string command = "ssh";  // with options of the user; a shell reads it
  std::string program;          // path of sotto on the hosts
};

// A command that ssh runs on a host. Both end with this object: ssh at once, the command when its stdin ends.
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
  std::optional<HostMessageReader> out_;
  std::string err_;
  std::optional<int> ended_;
};

// Runs until all have ended, or `done` says so. For commands that wait for nothing else.
void wait_for(std::deque<Remote>& remotes, const std::function<bool()>& done);

// The command that runs a share on a host (share.h).
std::string share_command(const Ssh& ssh);

}  // namespace sotto
