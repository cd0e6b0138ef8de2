#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/gossip/gossip.h"

namespace sotto {

// A rank's model where weights move along with models, as in push-sum: x and w. The worker is shown z = x / w.
class PushedModel {
 public:
  // `name` is that of the method, in the state.
  PushedModel(std::string_view name, std::size_t size) : name_(name), size_(size) {}

  std::span<float> x() { return x_; }
  GossipNote& note() { return note_; }  // holds w

  // Call it before a step. The first call sets x to the worker's parameters; each call gives the worker z.
  void begin(Worker& worker);
  // Gives the worker the z of this x. Gradients are taken there, and models are evaluated with it.
  void show(Worker& worker);
  // x = the exact mean of all models, and w = 1. A rank that does not `count` has no model yet.
  void average_models(Worker& worker, Communicator& communicator, bool counts = true);
  // Leaves out a wish to stop, which does not hold for a run that goes on. FileError if x of another size was read.
  void visit_state(StateVisitor& visitor);
  // Takes over the mean of the models of ranks of another group, which read(state) reads one by one: of all x, and of
  // all weights. There is no x if none had one yet. The mean of equal floats is that float.
  void take_over(std::span<const FormerRank> each, const std::function<void(StateVisitor&)>& read);

 private:
  std::string_view name_;
  std::size_t size_;
  std::vector<float> x_;  // empty before the first step
  GossipNote note_;
  bool shown_ = false;
};

}  // namespace sotto
