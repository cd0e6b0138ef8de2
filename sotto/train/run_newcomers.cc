// How newcomers get the state of the others, who may go on meanwhile.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "sotto/train/run.h"

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
bool Run::may_follow() {
  const AlgorithmEntry& algorithm = *choices_.algorithm.entry;
  const bool gets_mean = algorithm.whole_mean != nullptr && algorithm.whole_mean(choices_.algorithm.options);
  return gets_mean && world_.failure.empty() && idle_ == 0 && options_.partition == "iid" && !averages_batch_norm_ &&
         replica_.loss_scale() == nullptr && schedule_.plateau() == nullptr && replica_.optimiser().offers_gradient() &&
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
  } else if (newcomer_) {
    follower_ = std::make_unique<Follower>(replica_);
  } else {
    replica_.weigh(static_cast<float>(communicator_->size()) / static_cast<float>(trainers(communicator_->size())));
  }
}

// What newcomers get from others.
void Run::visit_shared(StateCopy& state) {
  state.visit("parameters", task_->parameters());
  state.visit("buffers", task_->buffers());
  replica_.visit_state(state);
  algorithm_->visit_shared(state);
}

// Waits until newcomers have the others' model, of the step that these have come to. Nobody runs out of time, however
// long that takes. Collective.
void Run::bring_up_to_date() {
  if (!followers_.empty() && !follower_) keep(done_);  // the others have it before a follower says that it has
  for (float waits = 1; waits > 0;) {
    waits = newcomer_state_->wait_for(communicator_->deadline() / 4) ? 0 : 1;
    communicator_->all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
  catch_up();
  if (follower_) keep(done_);
}

// REQUIRES that the state has arrived.
void Run::catch_up() {
  if (newcomer_ && !has_state_) newcomer_state_->give([this](StateCopy& state) { visit_shared(state); });
  has_state_ = true;
  if (follower_) follower_->catch_up([this](std::uint64_t step) { return lr_at(step); });
}

// Whether this is a follower that has caught up, which it does as soon as it can, or that has no room for more means.
bool Run::wishes_to_join() {
  if (!newcomer_state_) return false;
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  const bool arrived = newcomer_state_->wait_for({});
  if (follower_ && arrived) catch_up();
  return follower_ && (arrived || follower_->kept_bytes() > most_bytes);
}

// This rank's share of the examples. Followers read none.
Share Run::share() const {
  const int ranks = trainers(communicator_->size()), rank = communicator_->rank();
  const auto before = static_cast<int>(std::ranges::count_if(followers_, [&](int other) { return other < rank; }));
  return {std::clamp(rank - idle_ - before, 0, ranks - 1), ranks};
}

}  // namespace sotto
