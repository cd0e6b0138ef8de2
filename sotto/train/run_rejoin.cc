// How a run goes on after its group of ranks has changed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/train/broadcast_state.h"
#include "sotto/train/broadcast_text.h"
#include "sotto/train/membership_csv.h"
#include "sotto/train/run.h"
#include "sotto/train/stop_signal.h"

namespace sotto {

// Goes back to the beginning of the last step that all ranks of the former group had begun. Each rank keeps what it
// held back; newcomers get everything else from the first rank that was there before. Returns false if no rank has
// begun a step yet. Collective.
bool Run::rejoin(RunFolder& folder) {
  constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t own = rollback_->last().value_or(nothing);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator_->size()));
  communicator_->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  const std::uint64_t step = std::ranges::min(all);
  if (step == nothing) return false;
  const auto first = std::ranges::find_if(all, [](std::uint64_t each) { return each != nothing; }) - all.begin();
  const int donor = static_cast<int>(first);
  const bool newcomer = own == nothing;
  if (!newcomer && !rollback_->has(step)) {
    throw Error(
        fmt::format("rank {}: cannot go back to step {}; its last one was {}", communicator_->rank(), step, own));
  }
  const bool tells = communicator_->rank() == donor;
  const auto manifest = Manifest::of_text(
      broadcast_text(tells ? rollback_->manifest(step).text() : std::string(), *communicator_, donor));

  const std::string planned = method_;
  folder.start_from(manifest);
  take_up(manifest);
  if (method_ != planned) algorithm_ = make_planned_algorithm();
  algorithm_->enter(step);
  if (!newcomer) rollback_->give(step, replica_, *algorithm_, before_);
  if (std::ranges::find(all, nothing) != all.end()) {
    BroadcastState state(*communicator_, donor, newcomer);
    state.send(task_->parameters());
    state.send(task_->buffers());
    replica_.visit_state(state);
    algorithm_->visit_shared(state);
  }
  say(fmt::format("step {}  goes on with {} rank{}", step, communicator_->size(),
                  communicator_->size() == 1 ? "" : "s"));
  return true;
}

// Runs before the first step of a generation.
void Run::begin_generation() {
  rollback_->begin({.run = folder_->run(), .course = course_.text(), .identity = identity_, .parts = {}},
                   communicator_->rank(), communicator_->size(), done_);
  std::vector<int> ids(static_cast<std::size_t>(communicator_->size()));
  communicator_->all_gather(std::as_bytes(std::span(&world_.id, 1)), std::as_writable_bytes(std::span(ids)));
  interruption_.attempt([&] {
    if (communicator_->rank() == 0) append_generation(folder_->path(), {world_.generation, done_, std::move(ids)});
  });
}

// Collective. Whether the group changes after this step although no rank is lost: others want to join, or some of its
// ranks end while the rest go on. If all want to end, the run does.
bool Run::agreed_change() {
  if (heartbeat_ == nullptr) return false;
  if (algorithm_->exchanges(done_ - 1)) {  // first, as those that leave close their connections after the agreement
    algorithm_->enter(done_);
    rollback_->keep(done_, replica_, *algorithm_, totals());
  }
  const bool ends = StopSignal::caught() != 0 || interruption_.failed();
  std::array<float, 2> wishes{ends ? 1.0F : 0.0F, heartbeat_->wants_change() ? 1.0F : 0.0F};
  communicator_->all_reduce(wishes, ReduceOp::sum);
  const auto ending = static_cast<int>(wishes[0]);
  return ending < communicator_->size() && (ending > 0 || wishes[1] > 0);
}

// REQUIRES agreed_change(). The next generation goes on from here, or from the last exchange.
void Run::leave_group() {
  if (interruption_.failed()) interruption_.end_in_error(communicator_->rank(), done_);
  if (const int signal = StopSignal::caught(); signal != 0) {
    throw Stopped(fmt::format("rank {}: stopped by a signal after step {}; the others go on", world_.id, done_),
                  signal);
  }
  throw CommError(fmt::format("the group changes after step {}", done_));
}

}  // namespace sotto
