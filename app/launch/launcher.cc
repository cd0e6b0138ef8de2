#include "app/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "app/launch/hosts_job.h"
#include "app/launch/job.h"
#include "app/launch/local_job.h"
#include "app/launch/signals.h"
#include "app/launch/spawn.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// All events that a job waits for wake this process up, except the end of a process on a kernel without pidfds (before
// Linux 5.3).
constexpr std::chrono::milliseconds longest_wait{1000};

struct Running {
  std::size_t index;
  std::unique_ptr<Job> job;
};

std::unique_ptr<Job> make_job(const LaunchSpec& spec, Console& console, OnProgress on_progress) {
  if (spec.hosts != nullptr) return std::make_unique<HostsJob>(spec, console, std::move(on_progress));
  return std::make_unique<LocalJob>(spec, console, std::move(on_progress));
}

void wait_for_news(std::span<const Running> jobs) {
  std::vector<pollfd> polled{{Signals::descriptor(), POLLIN, 0}};
  Clock::time_point next = Clock::now() + longest_wait;
  for (const Running& each : jobs) {
    each.job->add_to(polled);
    if (const auto step = each.job->next_step()) next = std::min(next, *step);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
}

}  // namespace

void Job::show(std::FILE* to, std::string line) {
  if (spec_.show_lines) return console_.line(to, line);
  held_.push_back(std::move(line));
  if (held_.size() > held_lines) held_.pop_front();
}

bool is_stop_status(int status) { return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGUSR1; }

std::string name_of_signal(int number) {
  const char* name = sigabbrev_np(number);
  return fmt::format("signal {} (SIG{})", number, name != nullptr ? name : "?");
}

int launch_all(std::span<const LaunchSpec> specs, std::size_t at_once, Console& console, const LaunchNews& news) {
  const Signals signals;
  std::vector<Running> jobs;
  std::size_t next = 0;
  int stop = 0;
  for (;;) {
    for (int number = Signals::next(); number != 0; number = Signals::next()) {
      if (number == SIGUSR1 && stop != 0) continue;
      if (number == SIGHUP) number = SIGTERM;  // the terminal is gone
      const bool first = stop == 0 || stop == SIGUSR1;
      if (first) stop = number;
      if (first && !jobs.empty()) {
        console.line(stderr, number == SIGUSR1 ? "sotto: stopping for SIGUSR1, after the next step"
                                               : "sotto: stopping after the next step; once more to kill the ranks");
      }
      for (const Running& each : jobs) each.job->pass_on(number);
    }
    for (; stop == 0 && next < specs.size() && jobs.size() < at_once; ++next) {
      const auto show = [&news, index = next](std::string_view text) { news.progress(index, text); };
      jobs.push_back({next, make_job(specs[next], console, show)});
    }
    if (jobs.empty()) return stop;
    wait_for_news(jobs);
    for (const Running& each : jobs) each.job->look_after();
    std::erase_if(jobs, [&](const Running& each) {
      if (each.job->running()) return false;
      news.ended(each.index, each.job->result());
      return true;
    });
  }
}

LaunchResult launch(const LaunchSpec& spec, Console& console) {
  std::optional<LaunchResult> ended;
  const int stop = launch_all({&spec, 1}, 1, console,
                              {.progress = [&](std::size_t /*job*/, std::string_view text) { console.progress(text); },
                               .ended = [&](std::size_t /*job*/, const LaunchResult& result) { ended = result; }});
  LaunchResult found = ended.value_or(LaunchResult{.status = 128 + stop});
  found.signal = stop;
  for (const std::string& line : found.lines) console.line(stderr, line);
  console.clear();
  return found;
}

std::string report_text(Reason reason, std::string_view error) {
  return static_cast<char>(reason) + std::string(error);
}

Reason reason_of(std::string_view report) {
  for (const Reason reason : {Reason::lost_peer, Reason::not_finite, Reason::done}) {
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

std::optional<std::size_t> decisive(std::span<const Ending> endings) {
  for (const Ending kind : {Ending::failed, Ending::stopped, Ending::echo}) {
    const auto found = std::ranges::find(endings, kind);
    if (found != endings.end()) return static_cast<std::size_t>(found - endings.begin());
  }
  return std::nullopt;
}

}  // namespace sotto
