#include "app/launch/hosts_job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "app/launch/share.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr double soon = 20;  // seconds; hosts that must be ended would run for 60

struct HostsOutcome {
  LaunchResult result;
  std::string err;
  double seconds = 0;
};

// A job with a rank on each of the hosts `a` and `b`, which continues with one of them. In place of ssh a shell runs
// these scripts, which speak as a share does; $FOLDER is the test's.
HostsOutcome run_on_hosts(const std::string& a, const std::string& b) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sotto-hosts-job-{}", getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "ssh")
      << "FOLDER=" << folder.string() << "\n"
      << "greet() { echo '" << greeting("1").substr(0, greeting("1").size() - 1) << "'; echo launcher; }\n"
      << "hear() { while read -r order rest; do [ \"$order\" = $1 ] && return; done; exit 1; }\n"
      << "await() { while ! [ -e $FOLDER/$1 ]; do sleep 0.01; done; }\n"
      << "gone() { while kill -0 $(cat $FOLDER/$1) 2> /dev/null; do sleep 0.01; done; }\n"
      << "while [ $1 != -- ]; do shift; done\n"
      << "case $2 in\na)\n"
      << a << "\n;;\nb)\n"
      << b << "\n;;\nesac\n";
  const JobHosts hosts{.list = {{.name = "a"}, {.name = "b"}},
                       .ssh = {.command = "/bin/sh " + (folder / "ssh").string(), .program = "sotto"},
                       .version = "1",
                       .secret = {},
                       .pause = std::chrono::seconds(0),
                       .spelling = plain_spelling};
  LaunchSpec spec{.arguments = {}, .ranks = 2, .master = ""};
  spec.least_ranks = 1;
  spec.hosts = &hosts;
  HostsOutcome outcome;
  testing::internal::CaptureStderr();
  const Timer timer;
  {
    Console console;
    outcome.result = launch(spec, console);
  }
  outcome.seconds = timer.seconds();
  outcome.err = testing::internal::GetCapturedStderr();
  std::filesystem::remove_all(folder);
  return outcome;
}

// On a host that is not there at first.
const std::string later = "[ -e $FOLDER/tried ] || { touch $FOLDER/tried; exit 255; }; ";

TEST(HostsJob, ASignalDoesNotWaitForHosts) {
  const auto outcome =
      run_on_hosts("greet; hear start; echo ready; hear start-rank; await b; kill -INT $PPID; hear stop; exit 130",
                   "greet; hear start; touch $FOLDER/b; exec sleep 60");
  EXPECT_EQ(outcome.result.status, 130) << outcome.err;
  EXPECT_LT(outcome.seconds, soon);
}

TEST(HostsJob, TheEndDoesNotWaitForHosts) {
  const auto outcome =
      run_on_hosts("greet; hear start; echo ready; hear start-rank; await b; echo left 0; hear dismiss",
                   later + "greet; hear start; touch $FOLDER/b; exec sleep 60");
  EXPECT_EQ(outcome.result.status, 0) << outcome.result.error << outcome.err;
  EXPECT_LT(outcome.seconds, soon);
}

TEST(HostsJob, ALateHostsErrorIsAWarning) {
  const auto outcome = run_on_hosts(
      "greet; hear start; echo ready; hear start-rank; await b; gone b; echo left 0; hear dismiss",
      later + "greet; hear start; echo failed Eno folder; echo $$ > $FOLDER/new; mv $FOLDER/new $FOLDER/b; exit 2");
  EXPECT_EQ(outcome.result.status, 0) << outcome.result.error << outcome.err;
  EXPECT_NE(outcome.err.find("sotto: b: no folder\n"), std::string::npos) << outcome.err;
}

TEST(HostsJob, AHostLostAfterTheEndIsNoFailure) {
  const auto outcome =
      run_on_hosts("greet; hear start; echo ready; hear start-rank; await b; echo left 0; hear dismiss",
                   later + "greet; hear start; echo ready; hear start-rank; touch $FOLDER/b; hear dismiss; exit 255");
  EXPECT_EQ(outcome.result.status, 0) << outcome.result.error << outcome.err;
  EXPECT_EQ(outcome.err.find("lost"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace sotto
