#include "sotto/algorithm/gossip/gossip_step.h"

#include <fmt/format.h>

#include <bit>

namespace sotto {

void GossipStep::run_step(Worker& worker, Step& now) {
  if (now.stop) note_.stop_step = std::min(note_.stop_step, now.step + lead());
  gossip(worker, now);
  now.stops = now.step >= note_.stop_step;
}

std::uint64_t GossipStep::lead() {
  if (!delay_) delay_ = count_delay_();
  return *delay_;
}

void GossipStep::take_over(std::span<const FormerRank> each) {
  for (const FormerRank& former : each) visit_state(*former.state);
}

void GossipStep::sync_after_change(Worker& worker, bool is_new) {
  average_members(worker.parameters(), communicator_, !is_new);
}

void PushSumStep::begin(Worker& worker) {
  if (x_.empty()) x_.assign(worker.parameters().begin(), worker.parameters().end());
  if (!shown_) show(worker);
}

void PushSumStep::show(Worker& worker) {
  divide(x_, note_.weight, worker.parameters());
  shown_ = true;
}

// x = the exact mean of all models, and w = 1. A rank that does not `count` has no model yet.
void PushSumStep::average(Worker& worker, bool counts) {
  collect_all();
  begin(worker);
  average_by_weight(x_, note_.weight, communicator_, counts);
  show(worker);
  restart();
}

void PushSumStep::visit_state(StateVisitor& visitor) {
  visitor.visit(fmt::format("{}.x", name_), x_);
  if (!x_.empty() && x_.size() != size_) {
    const std::size_t read = std::exchange(x_, {}).size();
    throw FileError(fmt::format("{}.x has {} values, and should have {}: another model", name_, read, size_));
  }
  visit_weight(visitor, fmt::format("{}.weight", name_), note_.weight);
  shown_ = false;  // x may have been read
}

// Takes over the mean of the models of all: of all x, and of all weights. There is no x if none had one yet. The mean
// of equal floats is that float.
void PushSumStep::take_over(std::span<const FormerRank> each) {
  const auto count = static_cast<double>(each.size());
  std::vector<double> x;
  double weight = 0;
  for (const FormerRank& former : each) {
    visit_state(*former.state);
    collect_all();
    x.resize(x_.size());
    std::ranges::transform(x, x_, x.begin(), std::plus<>());
    weight += note_.weight;
  }
  x_.resize(x.size());
  std::ranges::transform(x, x_.begin(), [&](double sum) { return static_cast<float>(sum / count); });
  note_.weight = weight / count;
  shown_ = false;
  restart();
}

std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input) {
  const auto topology = std::make_shared<const Topology>(make_topology(options.topology, communicator.size()));
  const std::shared_ptr<const Mixing> mixing = make_mixing(options.mixing, *topology);
  const auto pool = std::make_shared<ThreadPool>(options.codec_threads);
  std::vector<Gossiper> gossipers;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    gossipers.emplace_back(options.recipe(), topology, mixing, buckets[b].layout, communicator.rank(), pool, input,
                           static_cast<std::uint16_t>(b));
  }
  return gossipers;
}

void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers) {
  for (std::size_t b = 0; b < gossipers.size(); ++b) {
    ScopedState scoped(visitor, fmt::format("bucket {}", b));
    gossipers[b].visit_state(scoped);
  }
}

void visit_weight(StateVisitor& visitor, std::string_view name, double& weight) {
  auto bits = std::bit_cast<std::uint64_t>(weight);
  visitor.visit(name, bits);
  weight = std::bit_cast<double>(bits);
}

ChangingPeers::ChangingPeers(const AlgorithmOptions& options, int ranks)
    : first_(options.topology), phases_(options.topologies), ranks_(ranks) {}

std::shared_ptr<const Topology> ChangingPeers::begun(std::uint64_t step) {
  const auto begins = [&](const TopologyPhase& phase) { return phase.first <= step; };
  const auto begun = static_cast<std::size_t>(std::ranges::count_if(phases_, begins));
  if (begun == phases_begun_) return nullptr;
  phases_begun_ = begun;
  return std::make_shared<const Topology>(make_topology(phases_[begun - 1].topology, ranks_));
}

std::uint64_t ChangingPeers::rounds_to_reach_all() const {
  const auto of = [this](const TopologySpec& topology) {
    return std::uint64_t{make_topology(topology, ranks_).rounds_to_reach_all()};
  };
  std::uint64_t rounds = of(first_);
  for (const TopologyPhase& phase : phases_) rounds += of(phase.topology);
  return rounds;
}

ModelGossiper::ModelGossiper(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                             Communicator& communicator)
    : communicator_(communicator),
      buckets_(buckets.begin(), buckets.end()),
      gossipers_(make_gossipers(options, buckets, communicator)) {}

void ModelGossiper::leave(std::span<float> x, GossipNote& note, Step& now) {
  const Timer timer;
  communicator_.at_step(now.step);
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.begin(part, note, now.key, now.timings); });
  has_come_ = false;
  thread_.post([this] {
    for (Gossiper& gossiper : gossipers_) gossiper.exchange(communicator_, exchanged_);
    has_come_ = true;
  });
  now.wait += timer.seconds();
}

void ModelGossiper::finish(std::span<float> x, GossipNote& note, Timings& timings) {
  each(x, note, [&](Gossiper& gossiper, std::span<float> part) { gossiper.finish(part, note, timings); });
  timings += std::exchange(exchanged_, {});
}

void ModelGossiper::follow(const std::shared_ptr<const Topology>& topology) {
  for (Gossiper& gossiper : gossipers_) gossiper.follow(topology);
}

void ModelGossiper::visit_state(StateVisitor& visitor) { visit_gossipers(visitor, gossipers_); }

}  // namespace sotto
