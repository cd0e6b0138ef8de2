#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/launch/console.h"
#include "sotto/comm/group/generations.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"

namespace sotto {

struct JobHosts;
struct JobShare;

// The members of a generation (comm/group/generations.h) in a planned job, whose groups are known beforehand.
struct PlannedGroup {
  std::vector<int> ids;                   // ascending
  std::vector<int> newcomers{};           // ids of ranks that are started for this group; in the first group, all ids
  std::uint64_t end = World::most_steps;  // they leave it together before this step
};

// A job of several processes, one a rank, on this machine or on others.
struct LaunchSpec {
  std::string program{};               // a path; empty: this program
  std::vector<std::string> arguments;  // without the program's name
  std::int64_t ranks = 2;
  std::string master;                     // "host:port" where the ranks meet; empty: a free port of this machine
  std::optional<Secret> secret{};         // of the job; the meeting place wants it, too
  std::optional<std::int64_t> threads{};  // compute threads a rank; nothing: cores / ranks of all jobs
  std::int64_t beside = 1;                // how many such jobs share the cores
  // The job continues without ranks that are killed or hang, as long as this many are left; 0: only with all ranks.
  std::int64_t least_ranks = 0;
  OnFailure on_failure = OnFailure::go_on;  // when it loses one
  std::int64_t replacements = 0;            // how many lost ranks may be replaced
  std::chrono::seconds patience{60};        // if a rank stays in its group for so long after another left, it hangs
  std::chrono::seconds silence{10};         // the same if it sends no heartbeats
  std::vector<PlannedGroup> groups{};       // the job has these groups, one after the other; empty: all ranks
  bool show_lines = true;                   // false: only progress, and the last lines of a job that failed

  // For a job with a coordinator at `master`, of which this launcher starts one rank: the rank's id, how many ranks the
  // job has at most, and how long the rank waits for a coordinator that is gone.
  struct Coordinated {
    int id = 0;
    std::int64_t most = 1;
    std::chrono::seconds wait{600};
  };
  std::optional<Coordinated> coordinated{};

  // Both must live until launch() returns.
  const JobHosts* hosts = nullptr;  // the ranks run on these, not here (hosts_job.h)
  const JobShare* share = nullptr;  // another machine started this job, and others have the rest of it (share.h)
};

// Why a rank ends. `lost_peer`: this may be only the echo of another rank's failure. `done`: there is no error and
// everything is written, so that nothing is lost if the rank is killed now.
enum class Reason : char { other = 'E', lost_peer = 'C', not_finite = 'N', done = 'D' };

struct LaunchResult {
  int status = 0;       // 0; the status of the first rank that failed; 130, 143 or 138 after SIGINT, SIGTERM or SIGUSR1
  std::string error{};  // why, in the words of the rank that failed first; empty when nothing failed
  int signal = 0;       // that asked this process to end the job, even if the job then failed, or had ended already
  Reason reason = Reason::other;     // not_finite: a loss, gradient or parameter was not finite, or too large
  std::vector<std::string> lines{};  // the last ones of a job that failed and does not show them
  // Distinct lines with "warning:" at their beginning, of a job that does not show its lines; also if it did not fail.
  std::vector<std::string> warnings{};
};

// Starts the ranks with the variables for find_world() and OpenMP, and shows their output: lines as "[2] text"
// (unchanged for a single rank), and text that ends in '\r' as progress. The first failure ends the job within two
// seconds: ranks that have not ended by themselves are killed. With `least_ranks`, a rank that is killed by a signal
// from elsewhere is no failure as long as enough others are left (comm/group/membership.h). SIGINT and SIGTERM are
// forwarded to the ranks; a second one kills them. SIGHUP counts as SIGTERM, unless it is ignored (nohup). SIGUSR1 is
// forwarded too, but does not count as the first signal. The ranks die with this process. ConfigError for a malformed
// master, CommError if its port is in use.
LaunchResult launch(const LaunchSpec& spec, Console& console);

using OnProgress = std::function<void(std::string_view text)>;

// Callbacks about jobs that run at the same time. `job` is the index of the job.
struct LaunchNews {
  std::function<void(std::size_t job, std::string_view text)> progress;
  std::function<void(std::size_t job, const LaunchResult& result)> ended;
};

// Runs the jobs in their order, at most `at_once` at a time, each as launch() does. Signals go to all of them, and
// after one that stops them no other job is started. Returns that signal, or 0. What `news` throws ends all jobs.
int launch_all(std::span<const LaunchSpec> specs, std::size_t at_once, Console& console, const LaunchNews& news);

// Whether this is the status of a process that a signal asked to end.
bool is_stop_status(int status);
std::string name_of_signal(int number);  // "signal 15 (SIGTERM)"

// What a rank hands over at its end: the Reason, and a text.
std::string report_text(Reason reason, std::string_view error);
Reason reason_of(std::string_view report);

// In a rank that a launcher started: hands the error that ends this process to the launcher, which prints one error of
// all ranks; or none, with Reason::done. False if there is no launcher.
bool report_to_launcher(std::string_view error, Reason reason);

}  // namespace sotto
