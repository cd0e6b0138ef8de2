// The ranks of this machine in a job that survives the loss of some. A share of such a job only starts and kills ranks
// as its launcher orders, and reports how they ended.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <sstream>
#include <string>

#include "app/launch/local_job.h"
#include "app/launch/share.h"
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

// Whether the job continues without this rank, which has ended before the run.
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
  if (group_->over()) return dismiss_all();  // while others were replaced
  if (!group_->in_vain().empty()) failed_ = Clock::now();
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

}  // namespace sotto
