// The ranks of this machine in a job that survives the loss of some. A share of such a job only starts and kills ranks
// as its launcher orders, and reports how they ended. At the end of this file: jobs whose groups are planned.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <sstream>

#include "app/launch/local_job.h"
#include "app/launch/share.h"
#include "sotto/comm/group/membership.h"
#include "sotto/core/error.h"

namespace sotto {

bool LocalJob::can_start(int /*id*/) { return stop_ == 0; }

void LocalJob::start_rank(int id, std::uint64_t generation) { start(place_of(id), generation); }

void LocalJob::give_up_rank(int id) {
  Rank& rank = ranks_[place_of(id)];
  if (rank.ended) return;
  rank.hung = true;
  kill(rank.process.pid, SIGKILL);  // reap() finds it
}

// Whether the job continues without this rank, which ended before the end of the run.
bool LocalJob::goes_on_without(std::size_t r) {
  const int id = static_cast<int>(number(r));
  if (WIFEXITED(*ranks_[r].ended)) {
    const bool stopped = is_stop(ranks_[r]);
    if (group_ && stopped) {
      group_->withdraw(id, fmt::format("rank {} was stopped", id));
    } else if (group_) {
      group_->leave(id);
    }
    if (is_ordered() && stopped) spec_.share->tell({"stopped", std::to_string(id)});
    if (is_ordered() && *ranks_[r].ended == 0) spec_.share->tell({"left", std::to_string(id)});
    return false;
  }
  if (killing_ != 0 || failed_) return false;
  const std::string why = explain(r);
  ranks_[r].lost = true;
  if (is_ordered()) {
    spec_.share->tell({"lost", fmt::format("{} {}", id, why)});
    return true;
  }
  if (group_->lose({id}, why)) return true;
  ranks_[r].lost = false;
  return false;
}

void LocalJob::look_after_group() {
  if (failed_ || killing_ != 0 || !running()) return;
  group_->look_after();
  if (group_->over()) return dismiss_all();  // newcomers for lost ranks may still run
  if (!group_->no_progress().empty()) failed_ = Clock::now();
}

// Kills all ranks that still run: they are not needed any more.
void LocalJob::dismiss_all() {
  dismissed_ = true;
  for (Rank& rank : ranks_) rank.lost = rank.lost || !rank.ended;
  kill_all(SIGKILL);
}

void LocalJob::follow_group_order(const HostMessage& order) {
  std::istringstream words(order.text);
  int id = 0;
  std::uint64_t generation = 0;
  words >> id;
  const bool is_ours = !words.fail() && id >= spec_.share->first_rank && place_of(id) < ranks_.size();
  if (order.kind == "start-rank" && is_ours && words >> generation && stop_ == 0 && killing_ == 0)
    start_rank(id, generation);
  if (order.kind == "kill-rank" && is_ours) give_up_rank(id);
  if (order.kind == "dismiss") dismiss_all();
}

// A plan says beforehand how the group of ranks changes, as in the replay of a run.
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

// Ends a rank that has left its group, and is not in the next one.
void LocalJob::dismiss(std::size_t r) {
  Rank& rank = ranks_[r];
  read_all();
  kill(rank.process.pid, SIGKILL);
  rank.ended = rank.process.wait();
  rank.lost = true;
  plan_.lose(static_cast<int>(r), fmt::format("rank {} leaves", r));
}

}  // namespace sotto
