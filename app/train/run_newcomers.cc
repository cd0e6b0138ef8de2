// How newcomers get the state of the others, who may go on meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "app/train/run.h"
#include "app/train/stop_signal.h"
#include "sotto/aggregate/aggregate.h"

namespace sotto {

// The ranks that brought no state of their own. Collective.
std::vector<int> Run::newcomers() {
  const std::vector<int> is_new = gather(newcomer_ ? 1 : 0);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < is_new.size(); ++rank) {
    if (is_new[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

// Whether newcomers may take part in exchanges before they have the model. A scale of the loss, and the choices of a
// plateau, would have to be known at once; where batch-norm statistics are averaged in each step, so would these.
// With local steps the newcomer's own optimiser is that of the donor some rounds ago. A mean of iterates would lack
// those of these rounds; and Adam corrects the bias of its moments by the number of steps, so moments of the first
// steps would be taken for those of later ones.
bool Run::may_follow(std::uint64_t step) {
  constexpr std::uint64_t first_steps = 1000;
  const Optimiser& optimiser = replica_.optimiser();
  const bool may_be_old = optimiser.to_evaluate().empty() && (optimiser.may_reset_buffers() || step >= first_steps);
  return algorithm_->elastic()->following() != nullptr && world_.failure.empty() && idle_ == 0 &&
         options_.partition == "iid" && !averages_batch_norm_ && replica_.loss_scale() == nullptr &&
         schedule_.plateau() == nullptr && optimiser.offers_gradient() && (replicated_ || may_be_old) &&
         std::ranges::all_of(plan_.phases,
                             [this](const Phase& phase) { return ignores_zeros(phase.recipe, replica_.buckets()); });
}

// Newcomers begin to get the state of rank `donor`. If they may not follow meanwhile, all wait for it.
void Run::give_state(int donor, const std::vector<int>& newcomers) {
  newcomer_state_ = std::make_unique<NewcomerState>(communicator_->clone(), donor, newcomers,
                                                    [this](StateCopy& state) { visit_shared(state); });
  if (followers_.empty()) {
    bring_up_to_date();
    newcomer_state_.reset();
  } else {
    follows_ = newcomer_;
    const auto ranks = static_cast<float>(communicator_->size());
    algorithm_->elastic()->following()->set_weight(
        follows_ ? 0 : ranks / static_cast<float>(trainers(communicator_->size())),
        [this] { return wishes_to_join() || StopSignal::caught() != 0; });
  }
}

// What newcomers get from others.
void Run::visit_shared(StateCopy& state) {
  if (!algorithm_->elastic()->meets_models()) state.visit("parameters", task_->parameters());
  state.visit("buffers", task_->buffers());
  replica_.visit_state(state);
  algorithm_->elastic()->visit_shared(state);
}

// Waits until newcomers have the others' model, of the step that these have come to. Nobody runs out of time, however
// long that takes. Collective.
void Run::bring_up_to_date() {
  for (float waits = 1; waits > 0;) {
    waits = is_up_to_date(communicator_->deadlines().least() / 4) ? 0 : 1;
    communicator_->all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
  say(fmt::format("newcomers have the state: {:.3f} MB in {:.2f} s",
                  static_cast<double>(newcomer_state_->bytes()) / 1e6, newcomer_state_->seconds()));
  if (followers_.empty()) return;
  std::vector<float> others(task_->buffers().begin(), task_->buffers().end());  // which keep their own
  if (!others.empty()) communicator_->broadcast(std::as_writable_bytes(std::span(others)), first_trainer());
  if (follows_) std::ranges::copy(others, task_->buffers().begin());
  if (done_ == 0 || algorithm_->exchanges(done_ - 1)) return;
  // Within a round of local steps a newcomer counts as the mean of the others, so the mean of all is that.
  others.assign(task_->parameters().begin(), task_->parameters().end());
  if (follows_) std::ranges::fill(others, 0.0F);
  aggregate(others, Op::avg, *communicator_, trainers(communicator_->size()));
  if (follows_) std::ranges::copy(others, task_->parameters().begin());
}

// Whether this rank has nothing more to get, or to give; waits for it, and catches up, for about that time.
bool Run::is_up_to_date(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  if (!newcomer_state_->wait_for(time)) return false;
  if (newcomer_ && !has_state_) newcomer_state_->give([this](StateCopy& state) { visit_shared(state); });
  has_state_ = true;
  return !follows_ || algorithm_->elastic()->catch_up(replica_, until);
}

// Whether this is a follower that can catch up, or that has no room for more means. Throws what went wrong with the
// state, on a rank that sends it, too.
bool Run::wishes_to_join() {
  if (!newcomer_state_) return false;
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  const bool arrived = newcomer_state_->wait_for({});
  return follows_ && (arrived || algorithm_->elastic()->following()->kept_bytes() > most_bytes);
}

// The first rank that is no follower.
int Run::first_trainer() const {
  int rank = idle_;
  while (std::ranges::find(followers_, rank) != followers_.end()) ++rank;
  return rank;
}

// This rank's share of the examples. Followers read none.
Share Run::share() const {
  const int ranks = trainers(communicator_->size()), rank = communicator_->rank();
  const auto before = static_cast<int>(std::ranges::count_if(followers_, [&](int other) { return other < rank; }));
  return {std::clamp(rank - idle_ - before, 0, ranks - 1), ranks};
}

}  // namespace sotto
