// How a run goes on after its group of ranks has changed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "app/train/broadcast_text.h"
#include "app/train/checkpoint.h"
#include "app/train/membership_csv.h"
#include "app/train/run.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/compute_threads.h"
#include "sotto/core/error.h"

namespace sotto {

// Goes back to the last step that all ranks of the former group keep; ranks that count together go on from the steps
// that they have made on average. Each rank keeps what it held back; newcomers get everything else from the first rank
// that was there before. A generation in which that step was not taken does not count: who came with it is a newcomer
// again. So what the ranks do next depends on what membership.csv says, and not on how far each of them was. Returns
// false if no rank has begun a step yet. Collective.
bool Run::rejoin(RunFolder& folder) {
  constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t own = rollback_->last().value_or(nothing);
  std::vector<std::uint64_t> lasts = gather(own);
  std::erase(lasts, nothing);
  if (lasts.empty()) return false;
  const std::uint64_t step = together_ ? std::ranges::max(lasts) : std::ranges::min(lasts);
  if (!world_.failure.empty()) {  // a checkpoint is all that is wanted
    const std::uint64_t saved = folder.newest_checkpoint();
    if (saved >= step && saved > 0) end_in_failure(fmt::format("there is a checkpoint of step {} already", saved));
  }
  const std::uint64_t kept = together_ ? own : step;
  if (own != nothing && !rollback_->has(kept)) {
    throw Error(
        fmt::format("rank {}: cannot go back to step {}; its last one was {}", communicator_->rank(), step, own));
  }
  const std::vector<std::uint64_t> origins = gather(own == nothing ? nothing : rollback_->generation(kept));
  const auto first = std::ranges::min_element(origins);
  const int donor = static_cast<int>(first - origins.begin());
  continues_ = *first;
  newcomer_ = together_ ? own == nothing : origins[own_rank()] != *first;
  const bool tells = communicator_->rank() == donor;
  auto manifest = Manifest::of_text(
      broadcast_text(tells ? rollback_->manifest(kept).text() : std::string(), *communicator_, donor));
  manifest.step = step;
  const std::vector<int> come = newcomers();
  if (may_follow(step)) followers_ = come;
  identity_["ranks"] = std::to_string(trainers(communicator_->size()) + idle_);

  const std::string planned = method_;
  folder.go_back_to(manifest);
  take_up(manifest);
  if (method_ != planned) algorithm_ = make_planned_algorithm();
  algorithm_->enter(step);
  if (newcomer_) {
    rollback_->forget();
  } else {
    rollback_->give(kept, replica_, *algorithm_, before_);
  }
  if (!come.empty()) give_state(donor, come);
  algorithm_->elastic()->sync_after_change(replica_, newcomer_);
  if (together_) algorithm_->own_speed()->begin_at(step);
  done_ = step;
  // Before rows of steps are cut that a later checkpoint counts on. While newcomers follow, some ranks have no state.
  if (folder.newest_checkpoint() > step && followers_.empty()) save(Kept::by_clock);
  const int ranks = trainers(communicator_->size()) + idle_;
  say(fmt::format("step {}  goes on with {} rank{}{}", step, ranks, ranks == 1 ? "" : "s",
                  followers_.empty() ? "" : "; newcomers get their model meanwhile"));
  return true;
}

// Ranks that are gone took their count along. What they sent is in their rows, but for the last second of a rank that
// was killed. Bytes of ranks at their own speed belong to no row. Collective.
void Run::count_lost_bytes(const RunFolder& folder) {
  const std::vector<std::uint64_t> sent = gather(before_.bytes_sent);
  if (communicator_->rank() != 0 || own_speed_) return;
  const std::uint64_t known = std::reduce(sent.begin(), sent.end());
  before_.bytes_sent += std::max(folder.recorded_bytes(), known) - known;
}

// Runs before the first step of a generation, or of a start of a run whose group stays.
void Run::begin_generation() {
  if (rollback_ != nullptr) {
    rollback_->begin(world_.generation,
                     {.run = folder_->run(), .course = course_.text(), .identity = identity_, .parts = {}},
                     communicator_->rank(), communicator_->size(), done_);
    algorithm_->enter(done_);
    if (together_) rollback_->forget();  // now all have the same model
    if (!follows_) rollback_->keep(done_, replica_, *algorithm_, before_);
  }
  GenerationRow row{.generation = world_.generation,
                    .step = done_,
                    .starts = !continues_,
                    .continues = continues_.value_or(0),
                    .epoch = course_.epochs_at(done_)};
  row.ids = gather(rollback_ != nullptr ? world_.id : communicator_->rank());
  row.threads = gather(compute_threads());
  for (const int rank : newcomers()) row.newcomers.push_back(row.ids[static_cast<std::size_t>(rank)]);
  interruption_.attempt([&] {
    if (communicator_->rank() == 0) append_generation(folder_->path(), row);
  });
}

// Runs in place of all steps of a generation that comes after a failure, if that ends the job (OnFailure::checkpoint).
void Run::end_with_checkpoint() {
  if (!continues_ && !options_.resume) {
    throw Error(world_.failure + "; no rank had begun a step, so there is no checkpoint");
  }
  save(Kept::always);
  communicator_->barrier();
  end_in_failure(fmt::format("a checkpoint was written after step {}", done_));
}

void Run::end_in_failure(const std::string& checkpoint) const {
  throw EndedWithCheckpoint(spelled(
      fmt::format("{}; {}; {} goes on from there", world_.failure, checkpoint, named("resume")), choices_.spelling));
}

// Runs before a step, and between the batches of an evaluation, since the next exchange may be a long way off.
void Run::require_group() {
  if (heartbeat_ == nullptr || !heartbeat_->is_over()) return;
  throw CommError(fmt::format("rank {}: a rank of its group was lost after step {}", world_.id, done_));
}

// Runs after a step in which the ranks exchanged something.
void Run::note_lap() {
  const Deadline& deadlines = communicator_->deadlines();
  deadlines.lap();
  if (heartbeat_ != nullptr) heartbeat_->took(deadlines.last_lap());
}

// Runs before the step at which the group of a replay changes. Once this rank has what it needs, it does not matter
// whether others have left already.
void Run::leave_as_planned(std::uint64_t step) {
  if (!followers_.empty()) bring_up_to_date();
  if (!follows_ && !rollback_->has(step)) {
    throw Error(fmt::format("the group cannot change before step {}, which is between two exchanges", step));
  }
  auto here = 1.0F;
  try {
    communicator_->all_reduce(std::span(&here, 1), ReduceOp::sum);
  } catch (const CommError&) {  // NOLINT(bugprone-empty-catch)
  }
  if (follows_) keep(step);
  leave_group();
}

// Whether this is one of the steps to which the ranks go back together if one is lost. Some of them may be ahead of
// others by Elastic::lead(), and each keeps the last two of these steps.
bool Run::keeps(std::uint64_t step) {
  const std::uint64_t first = first_steps_[own_rank()];
  // begin_generation() has kept the first one.
  if (rollback_ == nullptr || together_ || follows_ || step == first) return false;
  const std::uint64_t lead = algorithm_->elastic()->lead();
  if (lead == 0) return algorithm_->exchanges(step - 1);
  return (step - first) % (lead + 1) == 0 || step == world_.planned_end();
}

void Run::keep(std::uint64_t step) {
  algorithm_->drain();
  algorithm_->enter(step);
  rollback_->keep(step, replica_, *algorithm_, totals());
}

// For ranks that may be ahead of others, at a step to which all have come. Collective, and the caller must go on with
// something collective: so no rank goes on until all have kept this step.
void Run::keep_together() {
  communicator_->barrier();
  keep(done_);
}

// After an exchange failed, for ranks that count together: each goes on from where it was. It counts as the step that
// they have made on average, but lies before the meeting that they have not finished.
void Run::keep_what_is_left() {
  if (rollback_ == nullptr || !together_) return;
  OwnSpeed& own_speed = *algorithm_->own_speed();
  const RunTotals spent = totals();
  const std::uint64_t before_meeting = std::max(finished_, calendar_.next_meeting(finished_) - 1);
  const std::uint64_t step = std::clamp(own_speed.rate_step(), finished_, before_meeting);
  own_speed.abandon();
  rollback_->forget();
  rollback_->keep(step, replica_, *algorithm_, spent);
}

// Collective. Whether the group changes after this step although no rank is lost: others want to join, or, with a
// coordinator, some of its ranks end while the rest go on. If all want to end, the run does. Ranks of one launcher end
// together, because its signal reaches some hosts later than others.
bool Run::agreed_change() {
  if (heartbeat_ == nullptr) return false;
  // Before the agreement, as those that leave close their connections after it.
  if (algorithm_->elastic()->lead() > 0) {
    keep_together();
  } else if (!together_ && !follows_ && algorithm_->exchanges(done_ - 1)) {
    keep(done_);
  }
  const bool ends = StopSignal::caught() != 0 || interruption_.failed();
  std::array<float, 2> wishes{ends ? 1.0F : 0.0F, heartbeat_->wants_change() ? 1.0F : 0.0F};
  communicator_->all_reduce(wishes, ReduceOp::sum);
  if (follows_) keep(done_);  // not before all others have kept this step
  const auto ending = static_cast<int>(wishes[0]);
  if (ending > 0 && !world_.coordinated) return false;
  return ending < communicator_->size() && (ending > 0 || wishes[1] > 0);
}

// REQUIRES agreed_change(), or followers that are up to date. The next generation goes on from here, or from the last
// exchange.
void Run::leave_group() {
  if (interruption_.failed()) interruption_.end_in_error(communicator_->rank(), done_);
  if (const int signal = StopSignal::caught(); signal != 0) {
    throw Stopped(fmt::format("rank {}: stopped by a signal after step {}; the others go on", world_.id, done_),
                  signal);
  }
  throw GroupChange(
      fmt::format("{} after step {}", followers_.empty() ? "the group changes" : "newcomers have caught up", done_));
}

}  // namespace sotto
