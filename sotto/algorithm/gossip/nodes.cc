#include "sotto/algorithm/gossip/gossip.h"

#include <utility>
#include <vector>

#include "sotto/comm/subgroup.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

std::vector<int> ranks_from(int first, int count, int distance) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * distance);
  return ranks;
}

// A worker whose gradient is the mean over its node.
class NodeWorker final : public Worker {
 public:
  NodeWorker(Worker& inner, Communicator* node) : inner_(inner), node_(node) {}

  std::span<float> parameters() override { return inner_.parameters(); }
  std::span<float> gradient() override { return inner_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return inner_.buckets(); }
  Optimiser& optimiser() override { return inner_.optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    if (node_ == nullptr) return inner_.compute_gradient(step, calls);
    return inner_.compute_gradient(step, {.needed = calls.needed,
                                          .ready =
                                              [&](std::size_t bucket) {
                                                average(inner_.buckets()[bucket].range);
                                                calls.ready(bucket);
                                              },
                                          .is_void = [&](bool overflows) { return calls.is_void(any(overflows)); }});
  }
  double seconds() const { return seconds_; }  // spent on exchanges

 private:
  bool any(bool mine) {
    const Timer timer;
    const bool all = on_any_rank(mine, *node_);
    seconds_ += timer.seconds();
    return all;
  }

  void average(const Range& range) {
    const Timer timer;
    const std::span<float> gradient = inner_.gradient().subspan(range.begin, range.size());
    node_->all_reduce(gradient);
    const float share = 1.0F / static_cast<float>(node_->size());
    for (float& value : gradient) value *= share;
    seconds_ += timer.seconds();
  }

  Worker& inner_;
  Communicator* node_;
  double seconds_ = 0;
};

// A node averages gradients in each step.
AlgorithmTraits traits_of(const Algorithm& inner) {
  AlgorithmTraits traits = inner.traits();
  traits.schedule = AlgorithmTraits().schedule;
  return traits;
}

class Nodes final : public Algorithm {
 public:
  Nodes(const AlgorithmOptions& options, std::unique_ptr<Communicator> all, std::unique_ptr<Subgroup> column,
        std::unique_ptr<Algorithm> inner)
      : Algorithm(options, *all, traits_of(*inner), nullptr),
        all_(std::move(all)),
        node_(*all_, ranks_from(all_->rank() / options.node_size * options.node_size, options.node_size, 1)),
        column_(std::move(column)),
        inner_(std::move(inner)) {}

  AlgorithmStatus status() const override {
    AlgorithmStatus status = inner_->status();
    status.traffic = all_->traffic();
    return status;
  }
  void enter(std::uint64_t step) override { inner_->enter(step); }

  StepCost drain() override { return inner_->drain(); }
  void go_on() override { inner_->go_on(); }

  void average_models(Worker& worker) override {
    if (leads()) inner_->average_models(worker);
    node_.broadcast(std::as_writable_bytes(worker.parameters()), 0);
  }

  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }

 private:
  void run_step(Worker& worker, Step& now) override {
    const Timer agreeing;
    all_->at_step(now.step);
    StepInput of_node = now;
    of_node.stop = on_any_rank(now.stop, node_);
    double within = agreeing.seconds();
    NodeWorker member(worker, options_.averages_in_node ? &node_ : nullptr);
    StepReport report;
    if (leads()) {
      report = inner_->step(member, of_node);
    } else {
      report.loss = member.compute_gradient(now.step, {});
    }
    const Timer waiting;
    float stop = report.stop ? 1.0F : 0.0F;
    node_.broadcast(std::as_writable_bytes(std::span(&stop, 1)), 0);
    node_.broadcast(std::as_writable_bytes(worker.parameters()), 0);
    within += waiting.seconds() + member.seconds();
    now.loss = report.loss;
    now.stops = stop > 0;
    now.wait = report.wait + within;
    now.queue = report.queue;
    now.timings = report.timings;
    now.timings.network += within;
  }

  bool leads() const { return node_.rank() == 0; }

  std::unique_ptr<Communicator> all_;
  Subgroup node_;
  // The ranks that have the same place in their nodes. Only the first ranks of nodes exchange anything; the others have
  // an algorithm only to ask for its traits and remarks.
  std::unique_ptr<Subgroup> column_;
  std::unique_ptr<Algorithm> inner_;
};

}  // namespace

std::unique_ptr<Algorithm> make_nodes(const AlgorithmOptions& options, Communicator& communicator,
                                      const std::function<std::unique_ptr<Algorithm>(Communicator&)>& make) {
  auto all = communicator.clone();
  auto column = std::make_unique<Subgroup>(
      communicator, ranks_from(all->rank() % options.node_size, all->size() / options.node_size, options.node_size));
  auto inner = make(*column);
  return std::make_unique<Nodes>(options, std::move(all), std::move(column), std::move(inner));
}

}  // namespace sotto
