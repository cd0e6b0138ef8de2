#include "sotto/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "sotto/comm/world.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

struct Outcome {
  LaunchResult result;
  std::string out, err;
  double seconds = 0;
};

// Launches a shell script on each rank; a rank reports its error at descriptor 3.
Outcome run(std::int64_t ranks, const std::string& script, LaunchSpec spec = {}) {
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  spec.ranks = ranks;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  const Timer timer;
  {
    Console console;
    outcome.result = launch(spec, console);
  }
  outcome.seconds = timer.seconds();
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

constexpr double generous = 15;  // seconds; ranks that must be ended would run for 60

TEST(Launcher, GivesEveryRankItsVariables) {
  const auto outcome = run(3, "echo $SOTTO_RANK $SOTTO_RANKS $SOTTO_LOCAL_RANK $SOTTO_LOCAL_RANKS");
  EXPECT_EQ(outcome.result.status, 0);
  EXPECT_EQ(outcome.result.error, "");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_NE(outcome.out.find(fmt::format("[{0}] {0} 3 {0} 3\n", rank)), std::string::npos) << outcome.out;
  }
}

TEST(Launcher, ServesAStoreWhereRanksMeet) {
  const auto outcome = run(2, "echo at $SOTTO_MASTER");
  EXPECT_NE(outcome.out.find("[1] at 127.0.0.1:"), std::string::npos) << outcome.out;
}

TEST(Launcher, SetsTheThreadsThatAreAskedFor) {
  LaunchSpec spec;
  spec.threads = 3;
  EXPECT_EQ(run(1, "echo $OMP_NUM_THREADS", spec).out, "3\n");
  EXPECT_EQ(run(64, "[ $SOTTO_RANK = 63 ] && echo $OMP_NUM_THREADS; true").out, "[63] 1\n");
}

TEST(Launcher, LetsThreadsSpinWhereEachHasACore) {
  ASSERT_EQ(unsetenv("OMP_WAIT_POLICY"), 0);
  const std::string show = "echo ${OMP_WAIT_POLICY-free}";
  LaunchSpec spec;
  EXPECT_EQ(run(1, show, spec).out, "free\n");
  spec.threads = std::max(1U, std::thread::hardware_concurrency()) + 1;
  EXPECT_EQ(run(1, show, spec).out, "passive\n");
  ASSERT_EQ(setenv("OMP_WAIT_POLICY", "active", 1), 0);  // the user's own choice
  EXPECT_EQ(run(1, show, spec).out, "active\n");
  unsetenv("OMP_WAIT_POLICY");
}

TEST(Launcher, KeepsLinesWholeAndPrefixesThem) {
  const auto outcome = run(2, "printf 'a\\nb'; printf 'c\\n\\nlast' >&2");
  for (const char* line : {"[0] a\n", "[1] a\n", "[0] b\n", "[1] b\n"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
  }
  EXPECT_NE(outcome.err.find("[1] c\n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("[1] \n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("[1] last\n"), std::string::npos) << outcome.err;
}

TEST(Launcher, ShowsTextThatEndsInAReturnAsProgress) {
  // The output is no terminal: one line is printed at once, then none for a while.
  EXPECT_EQ(run(1, "printf 'one\\rtwo\\rthree\\r' >&2").err, "one\n");
}

TEST(Launcher, HoldsLinesBackUnlessTheJobFails) {
  LaunchSpec spec;
  spec.show_lines = false;
  const auto good = run(1, "echo text", spec);
  EXPECT_EQ(good.out + good.err, "");
  EXPECT_EQ(run(1, "echo text; exit 1", spec).err, "text\n");
}

TEST(Launcher, TheFirstFailureEndsAll) {
  const auto outcome = run(4, "[ $SOTTO_RANK = 2 ] && exit 7; exec sleep 60");
  EXPECT_EQ(outcome.result.status, 7);
  EXPECT_EQ(outcome.result.error, "rank 2 ended with status 7");
  EXPECT_LT(outcome.seconds, generous);
}

TEST(Launcher, KillsRanksThatDoNotListen) {
  const auto outcome = run(2, "[ $SOTTO_RANK = 0 ] && exit 1; trap '' TERM INT; while :; do sleep 0.1; done");
  EXPECT_EQ(outcome.result.error, "rank 0 ended with status 1");
  EXPECT_LT(outcome.seconds, generous);
}

TEST(Launcher, NamesTheRankThatWasKilled) {
  const auto outcome = run(3, "[ $SOTTO_RANK = 1 ] && kill -9 $$; exec sleep 60");
  EXPECT_EQ(outcome.result.status, 1);
  EXPECT_EQ(outcome.result.error, "rank 1 was killed by signal 9 (SIGKILL)");
}

TEST(Launcher, TellsTheCauseNotItsEchoes) {
  // Rank 1 notices the loss of rank 0 and ends before rank 0 does.
  const auto outcome = run(2,
                           "[ $SOTTO_RANK = 1 ] && { printf 'Crank 1: peer lost' >&3; exit 1; }; sleep 0.3; "
                           "printf 'Eloss is not finite' >&3; exit 2");
  EXPECT_EQ(outcome.result.error, "rank 0: loss is not finite");
  EXPECT_EQ(outcome.result.status, 2);
}

TEST(Launcher, ALostPeerIsACauseWhenThereIsNoOther) {
  const auto outcome =
      run(2, "[ $SOTTO_RANK = 1 ] && { printf 'Crank 1: rank 0 does not answer' >&3; exit 1; }; exec sleep 60");
  EXPECT_EQ(outcome.result.error, "rank 1: rank 0 does not answer");
}

TEST(Launcher, AnErrorOfAllRanksIsNobodysOwn) {
  EXPECT_EQ(run(3, "printf 'Ebad sentence' >&3; exit 2").result.error, "bad sentence");
}

TEST(Launcher, PassesASignalOnAndReturnsItsStatus) {
  for (const auto& [name, status] : {std::pair{"INT", 130}, std::pair{"TERM", 143}}) {
    const auto outcome = run(2, fmt::format("trap 'exit {1}' {0}; [ $SOTTO_RANK = 0 ] && sleep 0.2 && kill -{0} $PPID; "
                                            "while :; do sleep 0.05; done",
                                            name, status));
    EXPECT_EQ(outcome.result.status, status);
    EXPECT_EQ(outcome.result.error, "");
    EXPECT_LT(outcome.seconds, generous);
  }
}

TEST(Launcher, TheSecondSignalKills) {
  const auto outcome =
      run(2,
          "trap '' INT; [ $SOTTO_RANK = 0 ] && { sleep 0.2; kill -INT $PPID; sleep 0.2; kill -INT $PPID; }; "
          "while :; do sleep 0.05; done");
  EXPECT_EQ(outcome.result.status, 130);
  EXPECT_LT(outcome.seconds, generous);
}

TEST(Launcher, RanksInheritNoDescriptors) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("sotto-launcher-{}", getpid());
  const int open_here = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(open_here, 0);
  const auto outcome = run(2, "ls -l /proc/$$/fd");
  EXPECT_EQ(outcome.out.find(path.filename().string()), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("socket"), std::string::npos) << outcome.out;
  close(open_here);
  std::filesystem::remove(path);
}

TEST(Launcher, RefusesAMasterThatIsNone) {
  for (const char* master : {"host", "host:", ":1", "host:0", "host:99999", "host:x"}) {
    LaunchSpec spec;
    spec.master = master;
    Console console;
    EXPECT_THROW(launch(spec, console), ConfigError) << master;
  }
}

TEST(Launcher, RefusesAPortInUse) {
  const StoreServer other("127.0.0.1");
  LaunchSpec spec;
  spec.master = fmt::format("127.0.0.1:{}", other.port());
  Console console;
  EXPECT_THROW(launch(spec, console), CommError);
}

TEST(Launcher, SaysThatAProgramCannotBeRun) {
  LaunchSpec spec;
  spec.program = "/nowhere/at/all";
  spec.ranks = 1;
  Console console;
  const auto result = launch(spec, console);
  EXPECT_EQ(result.status, 127);
  EXPECT_EQ(result.error, "rank 0 ended with status 127");
}

}  // namespace
}  // namespace sotto
