// A job that goes on when it loses ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/membership.h"
#include "sotto/core/error.h"
#include "sotto/launch/job.h"

namespace sotto {
namespace {

constexpr int most_in_vain = 5;

}  // namespace

// Whether the others can go on without this rank, which has ended.
bool Job::can_lose(const Rank& rank) const {
  if (spec_.least_ranks == 0 || !WIFSIGNALED(*rank.ended) || stop_ != 0 || killing_ != 0 || failed_) return false;
  const auto left = std::ranges::count_if(ranks_, [](const Rank& other) { return !other.ended; });
  return left + (replaced_ < spec_.replacements ? 1 : 0) >= spec_.least_ranks && left > 0;
}

void Job::lose(std::size_t r) {
  lost_ += (lost_.empty() ? "" : "; ") + explain(r);
  in_vain_ = -1;
  ranks_[r].lost = true;
  if (!changing_) changing_ = Clock::now();
  if (const auto member = std::ranges::find(members_, static_cast<int>(r)); member != members_.end()) {
    Roster(*store_).end_meeting(generation_, static_cast<int>(member - members_.begin()), explain(r));
  }
  if (replaced_ == spec_.replacements) return;
  ++replaced_;
  try {
    start(r, generation_ + 1);
    lost_ += ", and is started anew";
  } catch (const Error& error) {
    lost_ += fmt::format(", and cannot be started anew: {}", error.what());
  }
}

// The ranks of this generation that have not said yet that they lost it.
std::vector<std::size_t> Job::missing_reports() {
  Roster roster(*store_);
  if (!changing_ && !roster.any_lost(generation_)) return {};
  std::vector<std::size_t> missing;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].ended || ranks_[r].generation > generation_) continue;
    if (const auto reason = roster.lost(generation_, static_cast<int>(r))) {
      if (!changing_) changing_ = Clock::now();
      if (lost_.empty()) lost_ = *reason;
    } else {
      missing.push_back(r);
    }
  }
  return missing;
}

// Announces the next generation when all ranks that are left wait for it.
void Job::look_after_generation() {
  if (failed_ || killing_ != 0 || stop_ != 0 || !running()) return;
  const std::vector<std::size_t> missing = missing_reports();
  if (!changing_) return;
  if (missing.empty()) return announce();
  if (Clock::now() - *changing_ < spec_.patience) return;
  for (const std::size_t r : missing) {
    ranks_[r].hung = true;
    kill(ranks_[r].process.pid, SIGKILL);  // reap() finds it
  }
}

void Job::announce() {
  std::vector<int> ids;
  bool only_new = true;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].ended) continue;
    ids.push_back(static_cast<int>(r));
    only_new = only_new && ranks_[r].generation > generation_;
  }
  if (only_new) {  // the others have come to the end of the run meanwhile
    for (const int r : ids) ranks_[static_cast<std::size_t>(r)].lost = true;
    return kill_all(SIGKILL);
  }
  if (++in_vain_ > most_in_vain) {
    given_up_ = fmt::format("{}; no rank has ended, but they lost each other {} times", lost_, in_vain_);
    failed_ = Clock::now();
    return;
  }
  console_.line(stderr, fmt::format("sotto: {}; going on with ranks {}", lost_, fmt::join(ids, ", ")));
  Roster(*store_).announce(++generation_, ids);
  members_ = std::move(ids);
  lost_.clear();
  changing_.reset();
}

}  // namespace sotto
