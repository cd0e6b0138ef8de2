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

// What algorithms on graphs have in common.

// Steps after which all have heard of a stop that one rank is asked for. Counted when the first one is: for a thousand
// ranks that takes milliseconds, which few runs ever need.
class StopDelay {
 public:
  explicit StopDelay(std::function<std::uint64_t()> count) : count_(std::move(count)) {}
  // All stop after that step at the latest.
  void stop(GossipNote& note, std::uint64_t step) {
    if (!steps_) steps_ = count_();
    note.least = std::min(note.least, step + *steps_);
  }

 private:
  std::function<std::uint64_t()> count_;
  std::optional<std::uint64_t> steps_;
};

// One for each bucket, as the options say. ConfigError.
std::vector<Gossiper> make_gossipers(const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                     const Communicator& communicator, Contract::Input input = Contract::Input::model);
void visit_gossipers(StateVisitor& visitor, std::span<Gossiper> gossipers);
// x / weight.
void divide(std::span<const float> x, double weight, std::span<float> quotient);
// x = the sum of all ranks' x over that of their weights, on every rank; weight = 1.
void agree_on(std::span<float> x, double& weight, Communicator& communicator);
// A rank's vector of that size, which is empty before the first step; FileError when another was read.
void visit_model(StateVisitor& visitor, std::string_view name, std::vector<float>& values, std::size_t size);
// A weight is kept as a double, bit for bit.
void visit_weight(StateVisitor& visitor, std::string_view name, double& weight);

}  // namespace sotto
