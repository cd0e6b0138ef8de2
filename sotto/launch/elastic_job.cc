// A job that goes on when it loses ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>

#include "sotto/comm/membership.h"
#include "sotto/core/error.h"
#include "sotto/launch/local_job.h"

namespace sotto {

// Whether the others can go on without this rank, which has ended.
bool LocalJob::can_lose(const Rank& rank) const {
  if (spec_.least_ranks == 0 || !WIFSIGNALED(*rank.ended) || stop_ != 0 || killing_ != 0 || failed_) return false;
  if (spec_.on_failure == OnFailure::stop) return false;
  const auto left = std::ranges::count_if(ranks_, [](const Rank& other) { return !other.ended; });
  if (spec_.on_failure == OnFailure::checkpoint || generations_.ends()) return left > 0;
  return left + (replaced_ < spec_.replacements ? 1 : 0) >= spec_.least_ranks && left > 0;
}

void LocalJob::lose(std::size_t r) {
  const int id = static_cast<int>(r);
  std::string why = explain(r);
  ranks_[r].lost = true;
  Roster(*store_).end_meeting(generations_, id, why);
  bool anew = replaced_ < spec_.replacements;
  if (anew) {
    ++replaced_;
    try {
      start(r, generations_.number() + 1);
      why += ", and is started anew";
    } catch (const Error& error) {
      why += fmt::format(", and cannot be started anew: {}", error.what());
      anew = false;
    }
  }
  generations_.lose(id, why);
  if (anew) generations_.come(id);
}

// Announces the next generation when all ranks that are left wait for it.
void LocalJob::look_after_generation() {
  if (failed_ || killing_ != 0 || stop_ != 0 || !running()) return;
  Roster roster(*store_);
  roster.hear(generations_);
  if (generations_.over()) {  // while others were started anew
    for (const int id : generations_.waiting()) ranks_[static_cast<std::size_t>(id)].lost = true;
    return kill_all(SIGKILL);
  }
  if (!generations_.changing()) return;
  if (generations_.next()) {
    console_.line(stderr, fmt::format("sotto: {}; {} ranks {}", generations_.reason(),
                                      generations_.failure().empty() ? "going on with" : "a checkpoint is written by",
                                      fmt::join(generations_.members(), ", ")));
    return roster.announce(generations_);
  }
  if (!generations_.in_vain().empty()) {
    failed_ = Clock::now();
  } else {
    give_up_late();
  }
}

// Kills members that have not left their group long after others did; reap() finds them.
void LocalJob::give_up_late() {
  if (Clock::now() - *generations_.changing() < spec_.patience) return;
  for (const int id : generations_.awaited()) {
    Rank& rank = ranks_[static_cast<std::size_t>(id)];
    rank.hung = true;
    kill(rank.process.pid, SIGKILL);
  }
}

}  // namespace sotto
