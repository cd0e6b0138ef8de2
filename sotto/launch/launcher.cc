#include "sotto/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>

#include "sotto/launch/job.h"
#include "sotto/launch/signals.h"

namespace sotto {
namespace {

struct Running {
  std::size_t index;
  std::unique_ptr<Job> job;
};

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

int launch_all(std::span<const LaunchSpec> specs, std::size_t at_once, Console& console, const LaunchNews& news) {
  Signals signals;  // before the stores' threads, which inherit its mask
  std::vector<Running> jobs;
  std::size_t next = 0;
  int stop = 0;
  for (;;) {
    for (; stop == 0 && next < specs.size() && jobs.size() < at_once; ++next) {
      const auto show = [&news, index = next](std::string_view text) { news.progress(index, text); };
      jobs.push_back({next, std::make_unique<Job>(specs[next], console, show)});
    }
    if (jobs.empty()) return stop;
    wait_for_news(signals, jobs);
    for (int number = signals.next(); number != 0; number = signals.next()) {
      if (number == SIGCHLD || (number == SIGUSR1 && stop != 0)) continue;
      if (number == SIGHUP) number = SIGTERM;  // the terminal is gone
      if (stop == 0 || stop == SIGUSR1) {
        stop = number;
        console.line(stderr, number == SIGUSR1
                                 ? "sotto: stopping for SIGUSR1: the ranks finish their step"
                                 : "sotto: stopping: the ranks finish their step; once more to kill them");
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

bool report_to_launcher(std::string_view error, Reason reason) {
  const char* variable = std::getenv(report_variable);
  struct stat about {};
  if (variable == nullptr || fstat(report_descriptor, &about) != 0 || !S_ISFIFO(about.st_mode)) return false;
  const std::string text = static_cast<char>(reason) + std::string(error);
  return write(report_descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace sotto
