#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "sotto/core/descriptor.h"

namespace sotto {

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe();  // Error when there is no descriptor left
// Appends what can be read without waiting, and closes the pipe at its end. For a descriptor that does not block.
void read_available(Descriptor& from, std::string& text);

// A child process and the ends that we read of its pipes.
struct Process {
  pid_t pid = 0;
  Descriptor out, err, report;
};

constexpr int report_descriptor = 3;       // of the child
constexpr int first_free_descriptor = 10;  // a child is given descriptors below this one

// Starts a program in a process group of its own, so that a signal of the terminal reaches only its parent. It inherits
// nothing but stdout, stderr and report_descriptor, which are pipes to us, and `input` as stdin; -1: its stdin is
// empty. It is killed when this process ends. `environment` is whole: "NAME=value". `program` is a path; empty: this
// program, which the fork server forks if it can (fork_server.h). One thread at a time may call it, beside others that
// do anything else. Error when there is no process or descriptor left.
Process spawn(const std::string& program, std::span<const std::string> arguments,
              std::span<const std::string> environment, int input = -1);

// What a child does first: it takes these as its stdin, stdout, stderr and report_descriptor, closes all others, has
// the usual signals, and dies with `parent`. It makes system calls only: when other threads of the parent were
// there at the fork, they may have held any lock.
void become_child(pid_t parent, std::span<const int, 4> descriptors);

}  // namespace sotto
