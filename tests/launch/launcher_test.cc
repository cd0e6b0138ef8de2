#include "app/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "app/launch/signals.h"
#include "sotto/comm/group/tcp_store.h"
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

// As after Ctrl-S: hosts must still hear from the launcher.
TEST(Console, WorksWhileTheScreenTakesNothing) {
  int ends[2]{};
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const std::string filling(1 << 16, '.');
  std::size_t filled = 0;
  for (ssize_t wrote = 0; (wrote = write(ends[1], filling.data(), filling.size())) > 0;)
    filled += static_cast<std::size_t>(wrote);
  const int screen = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  std::string shown(filled + 100, ' ');
  int calls = 0;
  {
    Console console;
    console.while_blocked([&] {
      ++calls;
      if (calls == 1) return true;
      EXPECT_EQ(read(ends[0], shown.data(), filled), static_cast<ssize_t>(filled));
      return true;
    });
    console.line(stderr, "a line");
  }
  dup2(screen, STDERR_FILENO);
  shown.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(ends[0], shown.data(), shown.size()))));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(shown, "a line\n");
  for (const int end : {ends[0], ends[1], screen}) close(end);
}

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

// For a short time, since others may have the cores, too.
TEST(Launcher, LetsThreadsSpinWhereEachHasACore) {
  ASSERT_EQ(unsetenv("OMP_WAIT_POLICY"), 0);
  ASSERT_EQ(unsetenv("GOMP_SPINCOUNT"), 0);
  const std::string show = "echo ${OMP_WAIT_POLICY-free}", spins = "echo ${GOMP_SPINCOUNT-free}";
  LaunchSpec spec;
  EXPECT_EQ(run(1, show, spec).out, "free\n");
  spec.threads = 1;
  EXPECT_EQ(run(1, spins, spec).out, "free\n");
  spec.threads = 2;
  const bool has_cores = std::thread::hardware_concurrency() > 1;
  EXPECT_EQ(run(1, spins, spec).out, has_cores ? "30000\n" : "free\n");
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

TEST(Launcher, ShowsTextBeforeAReturnAsProgress) {
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

TEST(Launcher, ALostPeerIsTheCauseOfLastResort) {
  const auto outcome =
      run(2, "[ $SOTTO_RANK = 1 ] && { printf 'Crank 1: rank 0 does not answer' >&3; exit 1; }; exec sleep 60");
  EXPECT_EQ(outcome.result.error, "rank 1: rank 0 does not answer");
}

TEST(Launcher, AnErrorOfAllRanksIsNobodysOwn) {
  EXPECT_EQ(run(3, "printf 'Ebad codec' >&3; exit 2").result.error, "bad codec");
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

// A thread with an empty signal mask, as OpenMP has where a command built a model before it starts ranks. The kernel
// may give it each signal of this process.
class OtherThread {
 public:
  ~OtherThread() { done_.set_value(); }

 private:
  std::promise<void> done_;
  std::jthread thread_{[done = done_.get_future()] { done.wait(); }};
};

TEST(Launcher, NoticesEndsIfAnotherThreadGetsSignals) {
  const OtherThread other;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(run(2, "exit 0").result.status, 0);
}

TEST(Launcher, PassesOnASignalOfAnotherThread) {
  const OtherThread other;
  const auto outcome = run(2,
                           "trap 'exit 130' INT; [ $SOTTO_RANK = 0 ] && sleep 0.2 && kill -INT $PPID; "
                           "while :; do sleep 0.05; done");
  EXPECT_EQ(outcome.result.status, 130);
}

TEST(Launcher, ASignalThatCameBeforeStartsNothing) {
  const Signals signals;
  raise(SIGTERM);
  EXPECT_TRUE(Signals::pending());
  const auto outcome = run(2, "echo begun");
  EXPECT_EQ(outcome.result.status, 143);
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_FALSE(Signals::pending());
  EXPECT_EQ(run(1, "echo begun").out, "begun\n");
}

TEST(Launcher, TakesSignalsThatItsParentBlocked) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  const auto outcome = run(1, "trap 'exit 130' INT; kill -INT $PPID; while :; do sleep 0.05; done");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(outcome.result.status, 130);
}

// Jobs of one rank that run at the same time, in a folder that they share. In the script JOB is the number of the job.
struct Together {
  int signal = 0;
  std::map<std::size_t, LaunchResult> results;  // of the jobs that were begun
  std::string err;
};

Together run_together(std::size_t jobs, std::size_t at_once, const std::string& script) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sotto-jobs-{}", getpid());
  std::filesystem::create_directory(folder);
  std::vector<LaunchSpec> specs;
  for (std::size_t job = 0; job < jobs; ++job) {
    specs.push_back({.program = "/bin/sh",
                     .arguments = {"-c", fmt::format("cd {} && JOB={}; {}", folder.string(), job, script)},
                     .ranks = 1,
                     .master = "",
                     .show_lines = false});
  }
  Together found;
  testing::internal::CaptureStderr();
  {
    Console console;
    found.signal =
        launch_all(specs, at_once, console,
                   {.progress = [](std::size_t /*job*/, std::string_view /*text*/) {},
                    .ended = [&](std::size_t job, const LaunchResult& result) { found.results[job] = result; }});
  }
  found.err = testing::internal::GetCapturedStderr();
  std::filesystem::remove_all(folder);
  return found;
}

// Waits until the file $1 is there.
constexpr const char* await = "await() { while ! [ -e $1 ]; do sleep 0.01; done; }; ";

TEST(Launcher, RunsAsManyJobsAsAllowed) {
  // Jobs 0 and 1 wait for each other; no job ever sees more than two.
  const auto found = run_together(5, 2,
                                  std::string(await) +
                                      "touch at.$JOB; touch ever.$JOB; [ $JOB -lt 2 ] && await ever.$((1 - JOB)); "
                                      "n=$(ls -d at.* | wc -l); rm at.$JOB; [ $n -le 2 ] || exit 9; exit $((JOB % 2))");
  EXPECT_EQ(found.signal, 0);
  EXPECT_EQ(found.err, "");
  ASSERT_EQ(found.results.size(), 5);
  for (const auto& [job, result] : found.results) EXPECT_EQ(result.status, job % 2) << job;
}

TEST(Launcher, ASignalEndsAllJobsAndBeginsNone) {
  const auto found = run_together(4, 2,
                                  std::string(await) +
                                      "trap 'exit 130' INT; touch ever.$JOB; await ever.$((1 - JOB)); "
                                      "[ $JOB = 0 ] && kill -INT $PPID; while :; do sleep 0.05; done");
  EXPECT_EQ(found.signal, SIGINT);
  ASSERT_EQ(found.results.size(), 2);
  for (const std::size_t job : {0, 1}) EXPECT_EQ(found.results.at(job).status, 130);
  EXPECT_EQ(found.err.find("once more"), found.err.rfind("once more")) << found.err;
}

TEST(Launcher, JobsShareTheCores) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  LaunchSpec spec;
  EXPECT_EQ(run(1, "echo $OMP_NUM_THREADS", spec).out, fmt::format("{}\n", cores));
  spec.beside = cores;
  EXPECT_EQ(run(1, "echo $OMP_NUM_THREADS", spec).out, "1\n");
}

TEST(Launcher, ReportsLinesAndReasonOfDivergence) {
  const auto found = run_together(2, 2, "echo line; [ $JOB = 0 ] && exit; printf 'Nloss is inf' >&3; exit 1");
  EXPECT_EQ(found.results.at(0).lines.size(), 0);
  EXPECT_EQ(found.results.at(0).reason, Reason::other);
  EXPECT_EQ(found.results.at(1).lines, std::vector<std::string>{"line"});
  EXPECT_EQ(found.results.at(1).reason, Reason::not_finite);
  EXPECT_EQ(found.results.at(1).error, "loss is inf");
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
  const StoreServer other(plain_stores(), "127.0.0.1");
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

// The rank pays no heed, and fails, or comes to its end.
TEST(Launcher, ReportsASignalInAnyCase) {
  for (const int status : {0, 1}) {
    const auto found = run(1, fmt::format("trap '' INT; kill -INT $PPID; sleep 1; exit {}", status));
    EXPECT_EQ(found.result.signal, SIGINT);
    EXPECT_EQ(found.result.status, status);
  }
  EXPECT_EQ(run(1, "exit 1").result.signal, 0);
}

// It has written everything, and says so; the other one runs to its end.
TEST(Launcher, ARankKilledWhenDoneIsNoFailure) {
  const auto found = run(2, "printf D >&3; [ $SOTTO_RANK = 0 ] && kill -KILL $$; sleep 2; echo end");
  EXPECT_EQ(found.result.status, 0) << found.result.error;
  EXPECT_EQ(found.out, "[1] end\n");
}

}  // namespace
}  // namespace sotto
