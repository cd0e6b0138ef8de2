#include "app/train/group_membership.h"

#include <fmt/format.h>

#include "adapters/c10d/compute_threads.h"
#include "app/train/record/membership_csv.h"
#include "sotto/aggregate/aggregate.h"

namespace sotto {

// Ranks that count together continue from their mean number of steps. Each rank keeps its residual; newcomers get all
// other state from the first rank that was there before. A generation that did not reach the kept step does not count:
// a rank that came with it is a newcomer again. So the course of the run depends on membership.csv alone, and not on
// how far each rank was.
bool GroupMembership::rejoin() {
  if (rollback_ == nullptr) return false;
  constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t own = rollback_->last().value_or(nothing);
  std::vector<std::uint64_t> lasts = session_.gather(own);
  std::erase(lasts, nothing);
  if (lasts.empty()) return false;
  const bool together = session_.together();
  const std::uint64_t step = together ? std::ranges::max(lasts) : std::ranges::min(lasts);
  RunFolder& folder = session_.folder();
  if (!session_.world().failure.empty()) {  // this generation only writes a checkpoint
    const std::uint64_t saved = folder.newest_checkpoint();
    if (saved >= step && saved > 0) end_in_failure(fmt::format("there is a checkpoint of step {} already", saved));
  }
  const std::uint64_t kept = together ? own : step;
  if (own != nothing && !rollback_->has(kept)) {
    throw Error(fmt::format("rank {}: cannot go back to step {}; its last one was {}", session_.rank(), step, own));
  }
  const auto origins = session_.gather(own == nothing ? nothing : rollback_->generation(kept));
  const auto first = std::ranges::min_element(origins);
  const int donor = static_cast<int>(first - origins.begin());
  continues_ = *first;
  newcomers_.set(together ? own == nothing : origins[static_cast<std::size_t>(session_.rank())] != *first);
  const bool tells = session_.rank() == donor;
  auto manifest = Manifest::of_text(
      broadcast_text(tells ? rollback_->manifest(kept).text() : std::string(), session_.communicator(), donor));
  manifest.step = step;
  const std::vector<int> come = newcomers_.ranks();
  session_.set_followers(newcomers_.may_follow(step) ? come : std::vector<int>());

  folder.go_back_to(manifest);
  session_.take_up(manifest, true);
  session_.enter(step);
  Algorithm& algorithm = session_.algorithm();
  if (newcomers_.is_one()) {
    rollback_->forget();
  } else {
    RunTotals before;
    rollback_->give(kept, session_.replica(), algorithm, before);
    log_.take_up(before);
  }
  if (!come.empty()) newcomers_.give_state(donor, come, step);
  algorithm.elastic()->sync_after_change(session_.replica(), newcomers_.is_one());
  if (together) algorithm.own_speed()->begin_at(step);
  return true;
}

void GroupMembership::begin_generation(std::uint64_t step) {
  const World& world = session_.world();
  if (rollback_ != nullptr) {
    rollback_->begin(world.generation, session_.manifest(), session_.rank(), session_.ranks(), step);
    session_.algorithm().enter(step);
    if (session_.together()) rollback_->forget();  // now all have the same model
    if (!session_.follows()) rollback_->keep(step, session_.replica(), session_.algorithm(), log_.totals());
  }
  GenerationRow row{.generation = world.generation,
                    .step = step,
                    .starts = !continues_,
                    .continues = continues_.value_or(0),
                    .epoch = session_.course().epochs_at(step)};
  row.ids = session_.gather(rollback_ != nullptr ? world.id : session_.rank());
  row.threads = session_.gather(compute_threads());
  for (const int rank : newcomers_.ranks()) row.newcomers.push_back(row.ids[static_cast<std::size_t>(rank)]);
  session_.interruption().attempt([&] {
    if (session_.rank() == 0) append_generation(session_.folder().path(), row);
  });
}

void GroupMembership::begin_step(std::uint64_t step, std::uint64_t first, std::uint64_t done) {
  if (keeps(step, first)) keep(step);
  if (step == session_.world().planned_end()) leave_as_planned(step, done);
  require_group(done);
}

void GroupMembership::require_group(std::uint64_t done) const {
  if (heartbeat_ == nullptr || !heartbeat_->is_over()) return;
  const std::string reason =
      fmt::format("rank {}: a rank of its group was lost after step {}", session_.world().id, done);
  session_.communicator().give_up(reason);  // otherwise others would take this rank for lost
  throw CommError(reason);
}

bool GroupMembership::wishes_change() {
  if (heartbeat_ == nullptr) return false;
  return session_.followers().empty() ? heartbeat_->wants_change() : newcomers_.wishes_to_join();
}

void GroupMembership::note_lap() {
  const Deadline& deadlines = session_.communicator().deadlines();
  deadlines.lap();
  if (heartbeat_ != nullptr) heartbeat_->took(deadlines.last_lap());
}

// Runs before the step at which the group of a replay changes. Errors of the last exchange do not count: this rank has
// its state, so others may have left already.
void GroupMembership::leave_as_planned(std::uint64_t step, std::uint64_t done) {
  const bool follows = session_.follows();
  if (!session_.followers().empty()) newcomers_.bring_up_to_date(done);
  if (!follows && !rollback_->has(step)) {
    throw Error(fmt::format("the group cannot change before step {}, which is between two exchanges", step));
  }
  auto here = 1.0F;
  try {
    session_.communicator().all_reduce(std::span(&here, 1), ReduceOp::sum);
  } catch (const CommError&) {  // NOLINT(bugprone-empty-catch)
  }
  if (follows) keep(step);
  leave(done);
}

// Whether this is one of the steps to which the ranks go back together if one is lost. A rank may be ahead of another
// by up to Elastic::lead() steps, and each keeps the last two of these steps.
bool GroupMembership::keeps(std::uint64_t step, std::uint64_t first) {
  // begin_generation() has kept the first one.
  if (rollback_ == nullptr || session_.together() || session_.follows() || step == first) return false;
  const std::uint64_t lead = session_.algorithm().elastic()->lead();
  if (lead == 0) return session_.algorithm().exchanges(step - 1);
  return (step - first) % (lead + 1) == 0 || step == session_.world().planned_end();
}

void GroupMembership::keep(std::uint64_t step) {
  session_.algorithm().drain();
  session_.algorithm().enter(step);
  rollback_->keep(step, session_.replica(), session_.algorithm(), log_.totals());
}

void GroupMembership::keep_together(std::uint64_t done) {
  if (rollback_ == nullptr || session_.algorithm().elastic()->lead() == 0) return;
  session_.communicator().barrier();
  keep(done);
}

// If ranks count together, each keeps its present state. It is kept under the step that the ranks have made on average,
// but at most the last one before the meeting that they have not finished.
void GroupMembership::keep_what_is_left(std::uint64_t finished) {
  if (rollback_ == nullptr || !session_.together()) return;
  OwnSpeed& own_speed = *session_.algorithm().own_speed();
  const RunTotals spent = log_.totals();
  const std::uint64_t before_meeting = std::max(finished, session_.calendar().next_meeting(finished) - 1);
  const std::uint64_t step = std::clamp(own_speed.rate_step(), finished, before_meeting);
  own_speed.abandon();
  rollback_->forget();
  rollback_->keep(step, session_.replica(), session_.algorithm(), spent);
}

void GroupMembership::note_save() {
  session_.interruption().saved();
  if (rollback_ != nullptr) rollback_->since_checkpoint = session_.interruption().since_checkpoint();
}

void GroupMembership::end_in_failure(const std::string& checkpoint) const {
  throw EndedWithCheckpoint(
      spelled(fmt::format("{}; {}; {} continues from there", session_.world().failure, checkpoint, named("resume")),
              session_.choices().spelling));
}

// The group changes if others want to join or, with a coordinator, if some ranks end while the rest continue. If all
// ranks want to end, the run ends. Ranks of one launcher end together, because its signal reaches some hosts later than
// others.
bool GroupMembership::agreed_change(std::uint64_t done) {
  if (heartbeat_ == nullptr) return false;
  const bool follows = session_.follows();
  // Before the agreement, since ranks that leave close their connections after it.
  if (session_.algorithm().elastic()->lead() > 0) {
    keep_together(done);
  } else if (!session_.together() && !follows && session_.algorithm().exchanges(done - 1)) {
    keep(done);
  }
  const bool ends = StopSignal::caught() != 0 || session_.interruption().failed();
  std::array<float, 2> wishes{ends ? 1.0F : 0.0F, heartbeat_->wants_change() ? 1.0F : 0.0F};
  session_.communicator().all_reduce(wishes, ReduceOp::sum);
  if (follows) keep(done);  // not before all others have kept this step
  const auto ending = static_cast<int>(wishes[0]);
  if (ending > 0 && !session_.world().coordinated) return false;
  return ending < session_.ranks() && (ending > 0 || wishes[1] > 0);
}

void GroupMembership::leave(std::uint64_t done) {
  Interruption& interruption = session_.interruption();
  if (interruption.failed()) interruption.end_in_error(session_.rank(), done);
  if (const int signal = StopSignal::caught(); signal != 0) {
    throw Stopped(
        fmt::format("rank {}: stopped by a signal after step {}; the others continue", session_.world().id, done),
        signal);
  }
  throw GroupChange(fmt::format("{} after step {}",
                                session_.followers().empty() ? "the group changes" : "newcomers have caught up", done));
}

}  // namespace sotto
