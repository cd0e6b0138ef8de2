#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

// What algorithms on graphs share.

// Counts the steps after which all ranks have heard that one was asked to stop. It does so at the first stop, because
// that takes milliseconds for a thousand ranks, and few runs ever need it.
class StopDelay {
 public:
  explicit StopDelay(std::function<std::uint64_t()> count) : count_(std::move(count)) {}
  // All ranks stop at most that many steps after `step`.
  void stop(GossipNote& note, std::uint64_t step) { note.stop_step = std::min(note.stop_step, step + steps()); }
  // A rank that has finished a step has heard of all that others did so many steps before. So no rank is further ahead.
  std::uint64_t steps() {
    if (!steps_) steps_ = count_();
    return *steps_;
  }

 private:
  std::function<std::uint64_t()> count_;
  std::optional<std::uint64_t> steps_;
};

// One gossiper per bucket, as the options say. ConfigError.
std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input = Contract::Input::model);
void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers);

// Visits a weight as a double, bit for bit.
void visit_weight(StateVisitor& visitor, std::string_view name, double& weight);

}  // namespace sotto
