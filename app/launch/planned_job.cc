// A job whose group of ranks changes as it is told beforehand, as in the replay of a run.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "app/launch/local_job.h"
#include "sotto/comm/group/membership.h"

namespace sotto {

void LocalJob::begin_plan() {
  int most = 0;
  for (const PlannedGroup& group : spec_.groups) most = std::max(most, group.ids.back());
  ranks_.resize(static_cast<std::size_t>(most) + 1);
  begin_empty();
  for (const int id : spec_.groups.front().ids) {
    start(static_cast<std::size_t>(id), 1);
    plan_.come(id);
  }
  plan_.next();
  Roster(*store_).announce(plan_);
}

// When all members have left their group at its end, members that are not in the next group end, and others are
// started. A lost member is a failure, as in a job without a plan.
void LocalJob::follow_plan() {
  const std::size_t next = plan_.number();  // the place of the next group, since numbers begin with 1
  if (failed_ || killing_ != 0 || stop_ != 0 || next == spec_.groups.size()) return;
  Roster roster(*store_);
  roster.hear(plan_);
  if (!plan_.changing()) return;
  if (!plan_.awaited().empty()) {
    if (Clock::now() - *plan_.changing() < spec_.patience) return;
    for (const int id : plan_.awaited()) give_up_rank(id);
    return;
  }
  const PlannedGroup& group = spec_.groups[next];
  for (const int id : plan_.members()) {
    const bool stays = std::ranges::binary_search(group.ids, id) && !std::ranges::binary_search(group.newcomers, id);
    if (!stays) dismiss(static_cast<std::size_t>(id));
  }
  for (const int id : group.newcomers) {
    start(static_cast<std::size_t>(id), next + 1);
    plan_.come(id);
  }
  if (!plan_.next()) {
    failed_ = Clock::now();
    return;
  }
  console_.line(stderr,
                fmt::format("sotto: the group changes before step {}, as it is recorded; continuing with ranks {}",
                            spec_.groups[next - 1].end, fmt::join(plan_.members(), ", ")));
  roster.announce(plan_);
}

// Ends a rank that has left its group, and waits for the next one in vain.
void LocalJob::dismiss(std::size_t r) {
  Rank& rank = ranks_[r];
  read_all();
  kill(rank.process.pid, SIGKILL);
  rank.ended = rank.process.wait();
  rank.lost = true;
  plan_.lose(static_cast<int>(r), fmt::format("rank {} leaves", r));
}

}  // namespace sotto
