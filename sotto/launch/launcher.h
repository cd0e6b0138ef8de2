#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/launch/console.h"

namespace sotto {

// A job of several processes on this machine, one a rank.
struct LaunchSpec {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;  // without the program's name
  std::int64_t ranks = 2;
  std::string master;                     // "host:port" where the ranks meet; empty: a free port of this machine
  std::optional<std::int64_t> threads{};  // compute threads a rank; nothing: cores / ranks
  bool show_lines = true;                 // false: only progress, and the last lines of a job that failed
};

struct LaunchResult {
  int status = 0;     // 0; that of the rank that failed first; 130, 143 or 138 after SIGINT, SIGTERM or SIGUSR1
  std::string error;  // why, in the words of the rank that failed first; empty when nothing failed
};

// Starts the ranks with the variables that find_world() reads and those of OpenMP, and shows their output: lines as
// "[2] text" (those of a single rank unchanged), and text that ends in '\r' as progress. The first failure ends the job
// within two seconds: ranks that have not ended by themselves are killed. SIGINT and SIGTERM are forwarded to the
// ranks; a second one kills them. SIGHUP counts as SIGTERM, unless it is ignored (nohup). SIGUSR1 is forwarded too, but
// does not count as the first signal. The ranks die with this process. ConfigError for a malformed master, CommError if
// its port is in use.
LaunchResult launch(const LaunchSpec& spec, Console& console);

// Whether a process that ends with this status was asked to by a signal.
bool is_stop_status(int status);

// In a rank that a launcher started: hands the error over that ends this process, so that one of them is printed, once.
// `lost_peer`: it may be only the echo of another rank's failure. False when there is no launcher.
bool report_to_launcher(std::string_view error, bool lost_peer);

}  // namespace sotto
