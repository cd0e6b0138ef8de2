#include "sotto/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/launch/hosts_job.h"
#include "sotto/launch/job.h"
#include "sotto/launch/local_job.h"
#include "sotto/launch/spawn.h"

namespace sotto {
namespace {

// Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD while it lives, and hands them over one by one instead. SIGHUP
// stays ignored where it is (nohup).
class Signals {
 public:
  // Error if there is no descriptor left.
  Signals() {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;  // while SIGCHLD is ignored, which a parent may have asked for, waitpid() finds nobody
    sigaction(SIGCHLD, &action, nullptr);
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set, number);
    struct sigaction hang_up {};
    sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    descriptor_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_.open()) throw Error(fmt::format("signalfd: {}", std::strerror(errno)));
  }
  ~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }  // restores the signal mask
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }  // readable if a signal is pending

  // The number of the next pending signal, or 0.
  int next() {
    signalfd_siginfo info{};
    return read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

struct Running {
  std::size_t index;
  std::unique_ptr<Job> job;
};

std::unique_ptr<Job> make_job(const LaunchSpec& spec, Console& console, OnProgress on_progress) {
  if (spec.hosts != nullptr) return std::make_unique<HostsJob>(spec, console, std::move(on_progress));
  return std::make_unique<LocalJob>(spec, console, std::move(on_progress));
}

void wait_for_news(const Signals& signals, std::span<const Running> jobs) {
  std::vector<pollfd> polled{{signals.descriptor(), POLLIN, 0}};
  std::optional<Clock::time_point> next;
  for (const Running& each : jobs) {
    each.job->add_to(polled);
    if (const auto step = each.job->next_step()) next = next ? std::min(*next, *step) : *step;
  }
  int timeout = -1;
  if (next) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  poll(polled.data(), polled.size(), timeout);
}

}  // namespace

bool is_stop_status(int status) { return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGUSR1; }

std::string name_of_signal(int number) {
  const char* name = sigabbrev_np(number);
  return fmt::format("signal {} (SIG{})", number, name != nullptr ? name : "?");
}

int launch_all(std::span<const LaunchSpec> specs, std::size_t at_once, Console& console, const LaunchNews& news) {
  Signals signals;  // before the stores' threads, which inherit its mask
  std::vector<Running> jobs;
  std::size_t next = 0;
  int stop = 0;
  for (;;) {
    for (; stop == 0 && next < specs.size() && jobs.size() < at_once; ++next) {
      const auto show = [&news, index = next](std::string_view text) { news.progress(index, text); };
      jobs.push_back({next, make_job(specs[next], console, show)});
    }
    if (jobs.empty()) return stop;
    wait_for_news(signals, jobs);
    for (int number = signals.next(); number != 0; number = signals.next()) {
      if (number == SIGCHLD || (number == SIGUSR1 && stop != 0)) continue;
      if (number == SIGHUP) number = SIGTERM;  // the terminal is gone
      if (stop == 0 || stop == SIGUSR1) {
        stop = number;
        console.line(stderr, number == SIGUSR1 ? "sotto: stopping for SIGUSR1, after the next step"
                                               : "sotto: stopping after the next step; once more to kill the ranks");
      }
      for (const Running& each : jobs) each.job->pass_on(number);
    }
    for (const Running& each : jobs) each.job->look_after();
    std::erase_if(jobs, [&](const Running& each) {
      if (each.job->running()) return false;
      news.ended(each.index, each.job->result());
      return true;
    });
  }
}

LaunchResult launch(const LaunchSpec& spec, Console& console) {
  LaunchResult found;
  launch_all({&spec, 1}, 1, console,
             {.progress = [&](std::size_t /*job*/, std::string_view text) { console.progress(text); },
              .ended = [&](std::size_t /*job*/, const LaunchResult& result) { found = result; }});
  for (const std::string& line : found.lines) console.line(stderr, line);
  console.clear();
  return found;
}

std::string report_text(Reason reason, std::string_view error) {
  return static_cast<char>(reason) + std::string(error);
}

Reason reason_of(std::string_view report) {
  for (const Reason reason : {Reason::lost_peer, Reason::not_finite}) {
    if (report.starts_with(static_cast<char>(reason))) return reason;
  }
  return Reason::other;
}

bool report_to_launcher(std::string_view error, Reason reason) {
  const char* variable = std::getenv(report_variable);
  struct stat about {};
  if (variable == nullptr || fstat(report_descriptor, &about) != 0 || !S_ISFIFO(about.st_mode)) return false;
  const std::string text = report_text(reason, error);
  return write(report_descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace sotto
