#include "app/launch/hosts_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "app/launch/share.h"

namespace sotto {
namespace {

constexpr std::chrono::seconds answer_deadline{60};  // from the start of ssh to the greeting
constexpr std::chrono::seconds host_grace{3};  // after the first failure; a host needs half of it to end its ranks
constexpr std::chrono::seconds ssh_grace{5};   // from the end of its stdin until ssh is killed
constexpr int ssh_failed = 255;

}  // namespace

HostsJob::HostsJob(const LaunchSpec& spec, Console& console, OnProgress on_progress)
    : Job(spec, console, std::move(on_progress)), hosts_(*spec.hosts) {
  std::int64_t first = 0;
  for (const JobHost& host : hosts_.list) {
    parts_.emplace_back(hosts_.ssh, host, first).pause = hosts_.pause;
    first += host.ranks;
  }
  console_.while_blocked([this] {
    sign();
    return true;
  });
}

HostsJob::~HostsJob() { console_.while_blocked(nullptr); }

bool HostsJob::running() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return !part.ended; });
}

bool HostsJob::begun() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.begun; });
}

// Whether this part now obeys orders. In an elastic job, a part that is not ready yet may have to wait for minutes.
bool HostsJob::follows(const Part& part) const { return is_elastic() ? part.ready && !part.missing : part.begun; }

void HostsJob::add_to(std::vector<pollfd>& polled) const {
  for (const Part& part : parts_) {
    if (!part.ended) part.remote.add_to(polled);
  }
}

std::optional<Clock::time_point> HostsJob::next_step() const {
  if (group_ && !failed_ && !ending_) return Clock::now() + poll_interval;
  if (ending_) return std::max(Clock::now() + std::chrono::seconds(1), *ending_ + ssh_grace);
  const auto sign = signed_ + sign_interval;
  return failed_ ? std::min(sign, *failed_ + host_grace) : sign;
}

void HostsJob::pass_on(int number) {
  if (number == SIGUSR1 && (stop_ != 0 || ending_)) return;
  if ((stop_ != 0 && stop_ != SIGUSR1) || ending_) return end_all();
  stop_ = number;
  if (group_) group_->stop("the job was stopped by " + name_of_signal(number));
  if (std::ranges::none_of(parts_, [this](const Part& part) { return follows(part); })) return end_all();
  for (Part& part : parts_) {
    if (follows(part)) {
      part.remote.send({"stop", std::to_string(number)});
    } else {
      miss(part);
    }
  }
}

void HostsJob::look_after() {
  for (Part& part : parts_) {
    if (!part.ended) listen(part);
  }
  begin_when_all_answered();
  if (group_) look_after_group();
  sign();
  escalate();
}

// A host kills its ranks if it hears nothing from us for long.
void HostsJob::sign() {
  if (Clock::now() - signed_ < sign_interval) return;
  signed_ = Clock::now();
  for (Part& part : parts_) part.remote.send({"alive", ""});
}

void HostsJob::listen(Part& part) {
  part.remote.look_after();
  while (const auto message = part.remote.receive()) hear(part, *message);
  if (!part.remote.ended()) return;
  part.ended = true;
  part.by_us = ending_.has_value();
  if (is_elastic() && goes_on_without(part)) return;
  order_.push_back(&part);
  if (!failed_ && ending(part) != Ending::fine && ending(part) != Ending::stopped) failed_ = Clock::now();
}

void HostsJob::hear(Part& part, const HostMessage& message) {
  const std::string& text = message.text;
  if (!part.answered) {  // until then a shell of the host may print what it likes
    const std::string own = greeting(hosts_.version);
    if (message.kind != "sotto-share") return;
    part.answered = true;
    if (to_line(message) == own) return;
    const std::string why =
        fmt::format("{} has another sotto: `{}`, and this is `{}`; install the same one there, or name it: {}",
                    part.host.name, text, hosts_.version, named("remote-sotto"));
    if (!group_) return give_up(why, 2);
    console_.line(stderr, "sotto: " + spelled(why, hosts_.spelling));  // the others train
    miss(part);
    part.retry.reset();
    return;
  }
  if (message.kind == "out" || message.kind == "err") {
    show(message.kind == "out" ? stdout : stderr, text);
  } else if (message.kind == "progress") {
    on_progress_(text);
  } else if (message.kind == "launcher") {
    part.launcher = text;
  } else if (message.kind == "failed") {
    part.report = text;
  } else if (group_) {
    hear_of_group(part, message);
  } else if (message.kind == "master" && master_.empty()) {
    master_ = text;
    for (Part& other : parts_) {
      if (!other.begun) begin(other);
    }
  }
}

// No rank starts before each host has answered, or is missing: a host that cannot be reached then costs no work.
void HostsJob::begin_when_all_answered() {
  if (begun() || failed_ || ending_) return;
  for (Part& part : parts_) {
    if (!part.missing && !await_answer(part)) return;
  }
  if (is_elastic()) return begin_group();
  begin(parts_.front());  // the first host tells where the ranks meet
}

// Gives up a host that has not answered for too long.
bool HostsJob::await_answer(Part& part) {
  if (part.launcher) return true;
  if (part.ended || Clock::now() - part.start < answer_deadline) return false;
  const std::string why =
      fmt::format("sotto did not answer there within {} s: {}", answer_deadline.count(), part.remote.last_words());
  if (is_elastic()) {
    part.report = report_text(Reason::other, why);
    miss(part);
  } else {
    give_up(fmt::format("{}: {}", part.host.name, why), 1);
  }
  return false;
}

void HostsJob::begin(Part& part) {
  part.begun = true;
  const auto say = [&](std::string_view kind, std::string text) {
    part.remote.send({std::string(kind), std::move(text)});
  };
  say("folder", std::filesystem::current_path().string());
  for (const std::string& argument : spec_.arguments) say("argument", argument);
  say("first-rank", std::to_string(part.first_rank));
  say("ranks", std::to_string(part.host.ranks));
  say("all-ranks", std::to_string(ranks_of(hosts_.list)));
  say("hosts", std::to_string(hosts_.list.size()));
  if (spec_.threads) say("threads", std::to_string(*spec_.threads));
  if (hosts_.secret) say("secret", secret_text(*hosts_.secret));
  if (is_elastic()) say("least-ranks", std::to_string(spec_.least_ranks));
  if (!is_elastic() && &part == &parts_.front()) {
    say("serve", spec_.master);
  } else {
    say("master", master_);
  }
  say("start", "");
}

void HostsJob::give_up(std::string why, int status) {
  if (!given_up_.empty()) return;
  given_up_ = std::move(why);
  given_up_status_ = status;
  end_all();
}

void HostsJob::end_all() {
  if (!ending_) ending_ = Clock::now();
  for (Part& part : parts_) part.remote.close();
}

void HostsJob::escalate() {
  if (failed_ && !ending_ && (!begun() || Clock::now() - *failed_ >= host_grace)) end_all();
  if (!ending_ || Clock::now() - *ending_ < ssh_grace) return;
  for (Part& part : parts_) part.remote.kill();
}

bool HostsJob::is_stop(const Part& part) const {
  const int status = *part.remote.ended();
  return part.begun && WIFEXITED(status) && is_stop_status(WEXITSTATUS(status));
}

Ending HostsJob::ending(const Part& part) const {
  if (part.by_us || part.missing || (part.begun && *part.remote.ended() == 0)) return Ending::fine;
  if (is_stop(part)) return Ending::stopped;
  return reason_of(part.report) == Reason::lost_peer ? Ending::echo : Ending::failed;
}

std::string HostsJob::explain(const Part& part) const {
  if (part.report.empty()) {
    return fmt::format("{}: {}{}", part.host.name,
                       part.answered ? "" : "sotto cannot be started there: ", part.remote.last_words());
  }
  const auto says_the_same = [&](const Part& other) { return other.missing || other.report == part.report; };
  const std::string reason = part.report.substr(1);
  return !part.missing && std::ranges::all_of(parts_, says_the_same) ? reason
                                                                     : fmt::format("{}: {}", part.host.name, reason);
}

LaunchResult HostsJob::result() {
  LaunchResult result;
  std::vector<Ending> endings;
  for (const Part* part : order_) endings.push_back(ending(*part));
  const auto place = decisive(endings);
  if (!given_up_.empty()) {
    result = {.status = given_up_status_, .error = given_up_};
  } else if (place) {
    const Part& part = *order_[*place];
    const int status = *part.remote.ended();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (endings[*place] == Ending::stopped) return {.status = code};
    // The shell's and ssh's own numbers are none of ours.
    result = {.status = part.answered && code != 0 && code != ssh_failed ? code : 1,
              .error = explain(part),
              .reason = reason_of(part.report)};
  } else {
    const bool done =
        std::ranges::all_of(parts_, [](const Part& part) { return part.missing || *part.remote.ended() == 0; });
    result.status = done ? 0 : 128 + stop_;
  }
  if (result.status != 0) result.lines.assign(held_.begin(), held_.end());
  return result;
}

}  // namespace sotto
