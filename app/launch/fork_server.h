#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sotto {

// Loading LibTorch takes a fifth of a second of a core, in every process. A fork server is a process that has loaded
// it and does nothing but fork ranks, which begin at once. It is forked itself before the program has threads.

using ProgramMain = int (*)(const std::vector<std::string>& arguments);  // returns the exit status

// Starts the server of this process. A rank runs `run`. The server ends with this process, which from now on is the
// parent of processes that its descendants orphan. If no server can be started, that is no error. Call it once, before
// there are other threads.
void start_fork_server(ProgramMain run);

// Ends the server, if this process has one. Call it at the end: a server that is left ends some milliseconds later.
void stop_fork_server();

// A child of this process, as spawn() makes it (spawn.h); `descriptors` are its stdin, stdout, stderr and
// report_descriptor. Nothing, and the caller must start the program itself: if there is no server, or it cannot fork,
// or `environment` differs from ours in more than SOTTO_* and OMP_NUM_THREADS, since libraries have read the rest when
// they were loaded. Error when the server does not answer. Not for several threads at a time.
std::optional<pid_t> fork_rank(std::span<const std::string> arguments, std::span<const std::string> environment,
                               std::span<const int, 4> descriptors);

}  // namespace sotto
