#include "sotto/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/option_name.h"
#include "sotto/launch/signals.h"
#include "sotto/launch/spawn.h"

namespace sotto {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds grace{1000};       // after the first failure, to end by themselves
constexpr milliseconds last_grace{1500};  // until those that SIGTERM did not end are killed
constexpr std::size_t longest_line = 1 << 16;
constexpr std::size_t held_lines = 20;
constexpr const char* report_variable = "SOTTO_REPORT";

struct Rank {
  Process process;
  std::string out, err;      // lines that are not complete yet
  std::string report;        // what it handed over as the reason of its end
  std::optional<int> ended;  // the status of waitpid
  bool by_us = false;        // ended because we wanted it to
};

class Job {
 public:
  Job(const LaunchSpec& spec, Console& console) : spec_(spec), console_(console) {}

  LaunchResult run() {
    start();
    while (running() > 0) {
      wait_for_news();
      for (int number = signals_.next(); number != 0; number = signals_.next()) {
        if (number != SIGCHLD) pass_on(number == SIGHUP ? SIGTERM : number);  // the terminal is gone
      }
      read_all();
      reap();
      escalate();
    }
    read_all();
    for (std::size_t r = 0; r < ranks_.size(); ++r) show_rest(r);
    LaunchResult result = decide();
    if (result.status != 0) {
      for (const std::string& line : held_) console_.line(stderr, line);
    }
    console_.clear();
    return result;
  }

 private:
  void start();
  std::vector<std::string> environment(std::int64_t rank, const std::string& master) const;
  void wait_for_news();
  void pass_on(int number);
  void read_all();
  void read_lines(Descriptor& from, std::string& pending, std::size_t rank, std::FILE* to);
  void show(std::size_t rank, std::FILE* to, std::string_view line);
  void show_rest(std::size_t rank);
  void reap();
  void escalate();
  void kill_all(int number);
  LaunchResult decide() const;
  bool is_stop(const Rank& rank) const;
  bool lost_peer(const Rank& rank) const { return rank.report.starts_with('C'); }
  std::string explain(std::size_t rank) const;

  std::ptrdiff_t running() const {
    return std::ranges::count_if(ranks_, [](const Rank& rank) { return !rank.ended; });
  }

  const LaunchSpec& spec_;
  Console& console_;
  Signals signals_;  // before the store's threads, which inherit its mask
  std::optional<StoreServer> store_;
  std::vector<Rank> ranks_;
  std::deque<std::string> held_;    // lines that are shown only if the job fails
  std::vector<std::size_t> order_;  // in which ranks ended
  std::optional<Clock::time_point> failed_;
  int stop_ = 0;  // the signal that we were stopped by
  int killing_ = 0;
};

void Job::start() {
  const std::string& asked = spec_.master;
  const auto [host, port] =
      asked.empty() ? MeetingPlace{"127.0.0.1", 0} : read_meeting_place(named("master", asked), asked);
  store_.emplace(host, port);
  const std::string master =
      fmt::format("{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", store_->port());

  std::vector<std::string> arguments{"sotto"};
  arguments.insert(arguments.end(), spec_.arguments.begin(), spec_.arguments.end());
  try {
    for (std::int64_t r = 0; r < spec_.ranks; ++r) {
      ranks_.emplace_back().process = spawn(spec_.program, arguments, environment(r, master));
    }
  } catch (const Error&) {
    kill_all(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.process.pid > 0) waitpid(rank.process.pid, nullptr, 0);
    }
    throw;
  }
}

std::vector<std::string> Job::environment(std::int64_t rank, const std::string& master) const {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t threads = spec_.threads.value_or(std::max<std::int64_t>(1, cores / spec_.ranks));
  std::vector<std::string> variables{
      fmt::format("SOTTO_RANK={}", rank),         fmt::format("SOTTO_RANKS={}", spec_.ranks),
      fmt::format("SOTTO_LOCAL_RANK={}", rank),   fmt::format("SOTTO_LOCAL_RANKS={}", spec_.ranks),
      fmt::format("SOTTO_MASTER={}", master),     fmt::format("{}={}", report_variable, report_descriptor),
      fmt::format("OMP_NUM_THREADS={}", threads),
  };
  // Threads that spin until there is work again make a step up to 1.7 times quicker, but 20 times slower where there
  // are more of them than cores.
  if (threads * spec_.ranks > cores && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    variables.emplace_back("OMP_WAIT_POLICY=passive");
  }
  const std::size_t own = variables.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto overridden = [&](const std::string& ours) { return ours.starts_with(name); };
    if (std::none_of(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(own), overridden)) {
      variables.emplace_back(text);
    }
  }
  return variables;
}

void Job::wait_for_news() {
  std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
  for (const Rank& rank : ranks_) {
    for (const Descriptor* from : {&rank.process.out, &rank.process.err, &rank.process.report}) {
      if (from->open()) polled.push_back({from->get(), POLLIN, 0});
    }
  }
  int timeout = -1;
  if (failed_) {
    const auto deadline = *failed_ + (killing_ == 0 ? grace : last_grace);
    timeout =
        static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<milliseconds>(deadline - Clock::now()).count()));
    if (killing_ == SIGKILL) timeout = -1;
  }
  poll(polled.data(), polled.size(), timeout);
}

void Job::pass_on(int number) {
  if (number == SIGUSR1 && (stop_ != 0 || killing_ != 0)) return;
  if ((stop_ != 0 && stop_ != SIGUSR1) || killing_ != 0) {
    kill_all(SIGKILL);
    return;
  }
  stop_ = number;
  console_.line(stderr, number == SIGUSR1 ? "sotto: stopping for SIGUSR1: the ranks finish their step"
                                          : "sotto: stopping: the ranks finish their step; once more to kill them");
  for (const Rank& rank : ranks_) {
    if (!rank.ended) kill(rank.process.pid, number);
  }
}

void Job::read_all() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    read_lines(rank.process.out, rank.out, r, stdout);
    read_lines(rank.process.err, rank.err, r, stderr);
    std::array<char, 4096> buffer;
    while (rank.process.report.open()) {
      const ssize_t got = read(rank.process.report.get(), buffer.data(), buffer.size());
      if (got == 0) rank.process.report.reset();
      if (got <= 0) break;
      rank.report.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
}

void Job::read_lines(Descriptor& from, std::string& pending, std::size_t rank, std::FILE* to) {
  std::array<char, 1 << 14> buffer;
  while (from.open()) {
    const ssize_t got = read(from.get(), buffer.data(), buffer.size());
    if (got == 0) from.reset();
    if (got <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = pending.find_first_of("\r\n", begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(pending).substr(begin, end - begin);
    if (pending[end] == '\n') {
      show(rank, to, line);
    } else {
      console_.progress(line);
    }
  }
  pending.erase(0, begin);
  if (pending.size() > longest_line) show(rank, to, std::exchange(pending, ""));
}

void Job::show(std::size_t rank, std::FILE* to, std::string_view line) {
  std::string text = ranks_.size() == 1 ? std::string(line) : fmt::format("[{}] {}", rank, line);
  if (spec_.show_lines) {
    console_.line(to, text);
    return;
  }
  held_.push_back(std::move(text));
  if (held_.size() > held_lines) held_.pop_front();
}

void Job::show_rest(std::size_t rank) {
  if (!ranks_[rank].out.empty()) show(rank, stdout, ranks_[rank].out);
  if (!ranks_[rank].err.empty()) show(rank, stderr, ranks_[rank].err);
}

void Job::reap() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    int status = 0;
    if (ranks_[r].ended || waitpid(ranks_[r].process.pid, &status, WNOHANG) <= 0) continue;
    ranks_[r].ended = status;
    ranks_[r].by_us = killing_ != 0;
    order_.push_back(r);
    const bool orderly = WIFEXITED(status) && (status == 0 || is_stop(ranks_[r]));
    if (!orderly && !failed_) failed_ = Clock::now();
  }
}

void Job::escalate() {
  if (!failed_) return;
  const auto passed = Clock::now() - *failed_;
  if (killing_ == 0 && passed >= grace) kill_all(SIGTERM);
  if (killing_ != SIGKILL && passed >= last_grace) kill_all(SIGKILL);
}

void Job::kill_all(int number) {
  killing_ = number;
  for (const Rank& rank : ranks_) {
    if (!rank.ended && rank.process.pid > 0) kill(rank.process.pid, number);
  }
}

// Ended because somebody asked for it, not because something failed.
bool Job::is_stop(const Rank& rank) const {
  if (WIFSIGNALED(*rank.ended)) return WTERMSIG(*rank.ended) == stop_;
  return is_stop_status(WEXITSTATUS(*rank.ended));
}

std::string Job::explain(std::size_t r) const {
  const Rank& rank = ranks_[r];
  const int status = *rank.ended;
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return fmt::format("rank {} was killed by signal {} (SIG{})", r, WTERMSIG(status), name != nullptr ? name : "?");
  }
  if (rank.report.empty()) return fmt::format("rank {} ended with status {}", r, WEXITSTATUS(status));
  std::string reason = rank.report.substr(1);
  const auto says_the_same = [&](const Rank& other) { return other.report == rank.report; };
  if (std::ranges::all_of(ranks_, says_the_same)) return reason;
  const std::string name = fmt::format("rank {}: ", r);
  return reason.starts_with(name) ? reason : name + reason;
}

LaunchResult Job::decide() const {
  // A rank that lost its peer often ends before the peer whose fault it was: that one is the first failure.
  std::optional<std::size_t> cause, echo, stopped;
  for (const std::size_t r : order_) {
    const Rank& rank = ranks_[r];
    if (rank.by_us || *rank.ended == 0) continue;
    auto& kind = is_stop(rank) ? stopped : lost_peer(rank) ? echo : cause;
    if (!kind) kind = r;
  }
  if (cause || (echo && !stopped)) {
    const std::size_t r = cause ? *cause : *echo;
    return {WIFEXITED(*ranks_[r].ended) ? WEXITSTATUS(*ranks_[r].ended) : 1, explain(r)};
  }
  if (stopped && WIFEXITED(*ranks_[*stopped].ended)) return {WEXITSTATUS(*ranks_[*stopped].ended), ""};
  const bool done = std::ranges::all_of(ranks_, [](const Rank& rank) { return *rank.ended == 0; });
  return {done ? 0 : 128 + stop_, ""};
}

}  // namespace

bool is_stop_status(int status) { return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGUSR1; }

LaunchResult launch(const LaunchSpec& spec, Console& console) { return Job(spec, console).run(); }

bool report_to_launcher(std::string_view error, bool lost_peer) {
  const char* variable = std::getenv(report_variable);
  struct stat about {};
  if (variable == nullptr || fstat(report_descriptor, &about) != 0 || !S_ISFIFO(about.st_mode)) return false;
  const std::string text = (lost_peer ? 'C' : 'E') + std::string(error);
  return write(report_descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace sotto
