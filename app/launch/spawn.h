#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/open_file.h"

namespace sotto {

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe();  // Error when there is no descriptor left
// Appends what can be read without waiting, and closes the pipe at its end. For a descriptor that does not block.
void read_available(Descriptor& from, std::string& text);

// A child process, and those ends of its pipes that we read.
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
// program, which the fork server forks if it can. One thread at a time may call it, whatever other threads do. Error
// when there is no process or descriptor left.
Process spawn(const std::string& program, std::span<const std::string> arguments,
              std::span<const std::string> environment, int input = -1);

// What a child does first: it takes these as its stdin, stdout, stderr and report_descriptor, closes all others, has
// the usual signals, and dies with `parent`. It makes only system calls, since other threads of the parent may have
// held any lock at the fork.
void become_child(pid_t parent, std::span<const int, 4> descriptors);

// Loading LibTorch takes a fifth of a second of a core, in every process. A fork server is a process that has loaded
// it and does nothing but fork ranks, which begin at once. It is forked itself before the program has threads.

using ProgramMain = int (*)(const std::vector<std::string>& arguments);  // returns the exit status

// Starts the server of this process. A rank runs `run`. The server ends with this process, which from now on is the
// parent of processes that its descendants orphan. If no server can be started, that is no error. Call it once, before
// there are other threads.
void start_fork_server(ProgramMain run);

// Ends the server, if this process has one. Call it at the end: a server that is left ends some milliseconds later.
void stop_fork_server();

// A child of this process, as spawn() makes it; `descriptors` are its stdin, stdout, stderr and report_descriptor.
// Returns nothing if there is no server, if it cannot fork, or if `environment` differs from ours in more than SOTTO_*
// and OMP_NUM_THREADS: libraries have read the other variables when they were loaded. Then the caller must start the
// program itself. Error when the server does not answer. Not for several threads at a time.
std::optional<pid_t> fork_rank(std::span<const std::string> arguments, std::span<const std::string> environment,
                               std::span<const int, 4> descriptors);

}  // namespace sotto
