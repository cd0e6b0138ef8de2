#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/descriptor.h"

namespace sotto {

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe();  // Error when there is no descriptor left
// Appends what can be read without waiting, and closes the pipe at its end. For a descriptor that does not block.
void read_available(Descriptor& from, std::string& text);

// A child process, and the ends that we read of its pipes.
struct Process {
  pid_t pid = 0;
  // A pidfd: readable when the process has ended. This wake-up cannot be lost; SIGCHLD can, because another thread may
  // get it. Not open on kernels without pidfds (before Linux 5.3), nor after the end was noted.
  Descriptor end;
  Descriptor out, err, report;

  // Its status, as waitpid() has it; nothing while it runs. REQUIRES that it was not returned before.
  std::optional<int> ended();
  // Waits for its end, after a SIGKILL, and returns the status.
  int wait();
  void add_to(std::vector<pollfd>& polled) const;  // all that can be waited for
};

// `variables`, each "NAME=value", and this process's variables of other names.
std::vector<std::string> with_inherited(std::vector<std::string> variables);

constexpr int report_descriptor = 3;       // of the child
constexpr int first_free_descriptor = 10;  // a child is given descriptors below this one

// Starts a program in its own process group, so that a signal of the terminal reaches only its parent. It inherits
// nothing but stdout, stderr and report_descriptor, which are pipes to us, and `input` as stdin; -1: its stdin is
// empty. It is killed when this process ends. `environment` is whole: "NAME=value". `program` is a path; empty: this
// program, which the fork server forks if it can (fork_server.h). One thread at a time may call it, whatever other
// threads do. Error when there is no process or descriptor left.
Process spawn(const std::string& program, std::span<const std::string> arguments,
              std::span<const std::string> environment, int input = -1);

// What a child does first: it takes these as its stdin, stdout, stderr and report_descriptor, closes all others, has
// the usual signals, and dies with `parent`. It makes system calls only: when other threads of the parent were
// there at the fork, they may have held any lock.
void become_child(pid_t parent, std::span<const int, 4> descriptors);

}  // namespace sotto
