#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/gossip/gossip.h"

namespace sotto {

// A rank's model in push-sum: x and w. The worker is shown z = x / w.
class PushedModel {
 public:
  explicit PushedModel(std::size_t size) : size_(size) {}

  std::span<float> x() { return x_; }
  GossipNote& note() { return note_; }  // holds w

  // Call it before a step. The first call sets x to the worker's parameters; each call gives the worker z.
  void begin(Worker& worker);
  // Gives the worker the z of this x. Gradients are taken there, and models are evaluated with it.
  void show(Worker& worker);
  // x = the exact mean of all models, and w = 1. A rank that does not `count` has no model yet.
  void average_models(Worker& worker, Communicator& communicator, bool counts = true);
  // Leaves out a wish to stop, which does not hold for a run that goes on.
  void visit_state(StateVisitor& visitor);
  // Takes over the mean of the models of ranks of another group.
  void take_over(const FormerModels& models);

 private:
  std::size_t size_;
  std::vector<float> x_;
  GossipNote note_;
  bool shown_ = false;
};

}  // namespace sotto
