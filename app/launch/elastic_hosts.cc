// A job on hosts that survives the loss of ranks or hosts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <sstream>
#include <utility>

#include "app/launch/hosts_job.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::chrono::seconds longest_pause{60};  // between two tries to reach a host

std::string ranks_text(const std::vector<int>& ids) {
  return ids.size() == 1 ? fmt::format("rank {} is", ids.front()) : fmt::format("ranks {} are", fmt::join(ids, ", "));
}

}  // namespace

HostsJob::Part& HostsJob::part_of(int id) {
  return *std::ranges::find_if(parts_, [id](const Part& part) { return id < part.first_rank + part.host.ranks; });
}

std::vector<int> HostsJob::ids_of(const Part& part) const {
  std::vector<int> ids(static_cast<std::size_t>(part.host.ranks));
  std::iota(ids.begin(), ids.end(), static_cast<int>(part.first_rank));
  return ids;
}

// The address by which hosts reach this machine. If a host is this machine itself, its connection may come over the
// loopback.
std::string HostsJob::meeting_host() const {
  const Part* seen = nullptr;
  for (const Part& part : parts_) {
    if (part.missing) continue;
    if (!is_loopback(*part.launcher) && !part.launcher->empty()) return *part.launcher;
    seen = &part;
  }
  if (hosts_.list.size() == 1 || seen->launcher->empty()) return "127.0.0.1";
  throw ConfigError(fmt::format(
      "this machine, where the ranks meet, was seen by {} at {}, where others cannot come; say where it is: {}",
      seen->host.name, *seen->launcher, named("master", "HOST:PORT")));
}

// Hosts that have not answered get the last ranks, so that the first group is numbered as in any other job.
void HostsJob::begin_group() {
  std::int64_t ranks = 0;
  for (const Part& part : parts_) ranks += part.missing ? 0 : part.host.ranks;
  const auto missing = std::ranges::find_if(parts_, &Part::missing);
  if (ranks < spec_.least_ranks) {
    return give_up(fmt::format("{}; the other hosts have {} rank{}, and {} are needed", explain(*missing), ranks,
                               ranks == 1 ? "" : "s", spec_.least_ranks),
                   1);
  }
  for (const Part& part : parts_) {
    if (!part.missing) continue;
    console_.line(stderr, fmt::format("sotto: {}; the job begins with {} of {} ranks, and tries it again",
                                      explain(part), ranks, spec_.ranks));
  }
  const MeetingPlace place = spec_.master.empty() ? MeetingPlace{meeting_host(), 0}
                                                  : read_meeting_place(named("master", spec_.master), spec_.master);
  store_.emplace(TcpStores(hosts_.secret), place.host, place.port);
  master_ = text_of(MeetingPlace{place.host, store_->port()});
  parts_.sort([](const Part& a, const Part& b) { return !a.missing && b.missing; });
  std::int64_t first = 0;
  for (Part& part : parts_) first = (part.first_rank = first) + part.host.ranks;
  group_.emplace(spec_, *store_, static_cast<RankStarter&>(*this), console_);
  group_->begin(static_cast<std::size_t>(ranks));
  for (Part& part : parts_) {
    if (!part.missing) begin(part);
  }
}

// Whether the job continues without a host, whose connection has ended. Errors of its ranks end the job, unless these
// ranks have never trained with the others.
bool HostsJob::goes_on_without(Part& part) {
  if (part.missing) return true;
  if (ending_ || failed_) return false;
  const bool orderly = *part.remote.ended() == 0 || is_stop(part);
  if (!part.begun || (dismissed_ && !orderly)) {
    miss(part);
    return true;
  }
  const std::vector<int> running = group_->running();
  std::vector<int> lost = ids_of(part);
  std::erase_if(lost, [&](int id) { return !std::ranges::binary_search(running, id); });
  const bool is_new = std::ranges::all_of(lost, [this](int id) { return group_->is_expected(id); });
  const bool failed = !part.report.empty();
  if (orderly || (failed && !is_new)) return false;
  const std::string why = explain(part);
  miss(part);
  if (failed) part.retry.reset();  // it would fail again
  if (!lost.empty()) {
    lose(lost, failed ? why : fmt::format("{} lost: {}", ranks_text(lost), why));
  } else if (failed) {
    console_.line(stderr, "sotto: " + why);
  }
  return true;
}

void HostsJob::miss(Part& part) {
  part.missing = true;
  part.remote.kill();
  part.retry = Clock::now() + part.pause;
  part.pause = std::min(2 * part.pause, longest_pause);
}

void HostsJob::lose(const std::vector<int>& ids, const std::string& why) {
  if (!group_->lose(ids, why)) give_up(why, 1);
}

void HostsJob::hear_of_group(Part& part, const HostMessage& message) {
  if (dismissed_) return;
  if (message.kind == "ready") return start_all(part);
  std::istringstream words(message.text);
  int id = 0;
  words >> id;
  const std::vector<int> own = ids_of(part);
  if (words.fail() || !std::ranges::binary_search(own, id)) return;
  if (message.kind == "left") group_->leave(id);
  if (message.kind == "stopped") group_->withdraw(id, fmt::format("rank {} was stopped", id));
  if (message.kind == "lost" && !ending_ && !failed_) {
    std::string why;
    std::getline(words >> std::ws, why);
    lose({id}, fmt::format("{}: {}", part.host.name, why));
  }
}

// The host is ready. Its ranks are in the first group, or join the others.
void HostsJob::start_all(Part& part) {
  part.ready = true;
  const std::vector<int> running = group_->running();
  const bool again = std::exchange(part.was_there, true);
  for (const int id : ids_of(part)) {
    const bool in_first = std::ranges::binary_search(running, id);
    if (!in_first) {
      if (again && !group_->take_replacement()) return;
      group_->expect(id);
    }
    start_rank(id, group_->generation() + (in_first ? 0 : 1));
  }
}

bool HostsJob::can_start(int id) {
  const Part& part = part_of(id);
  return part.begun && !part.missing && !part.ended;
}

void HostsJob::start_rank(int id, std::uint64_t generation) {
  part_of(id).remote.send({"start-rank", fmt::format("{} {}", id, generation)});
}

void HostsJob::give_up_rank(int id) { part_of(id).remote.send({"kill-rank", std::to_string(id)}); }

void HostsJob::look_after_group() {
  if (failed_ || ending_ || dismissed_) return;
  group_->look_after();
  if (group_->over()) return dismiss();
  if (!group_->no_progress().empty()) return give_up(group_->no_progress(), 1);
  if (stop_ != 0) return;
  for (Part& part : parts_) {
    if (!part.missing && !part.begun && await_answer(part)) begin(part);
  }
  reach_missing();
}

void HostsJob::reach_missing() {
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (!part->ended || !part->retry || Clock::now() < *part->retry) continue;
    if (part->was_there && !group_->has_replacement()) continue;
    try {
      const auto anew = parts_.emplace(part, hosts_.ssh, part->host, part->first_rank);
      anew->was_there = part->was_there;
      anew->pause = part->pause;
      parts_.erase(part);
      part = anew;
    } catch (const Error&) {  // this machine has no process left for ssh
      miss(*part);            // the next try comes later
    }
  }
}

// The run has come to its end.
void HostsJob::dismiss() {
  dismissed_ = true;
  for (Part& part : parts_) {
    if (follows(part)) {
      part.remote.send({"dismiss", ""});
    } else {
      miss(part);
    }
  }
}

}  // namespace sotto
