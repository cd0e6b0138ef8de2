#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/aggregate/gossiper.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

// What push-sum has of a rank's model: x and w, of which the worker is shown z = x / w.
class PushedModel {
 public:
  explicit PushedModel(std::size_t size) : size_(size) {}

  std::span<float> x() { return x_; }
  GossipNote& note() { return note_; }  // with w

  // Before a step: at first x is what the worker has, and behind that the worker has z.
  void begin(Worker& worker);
  // The worker has the z of this x. Gradients are taken there, and models are evaluated with it.
  void show(Worker& worker);
  // x = the exact mean of all ranks' z, and w = 1.
  void agree(Worker& worker, Communicator& communicator);
  // A wish to stop is none of a run that goes on.
  void visit_state(StateVisitor& visitor);

 private:
  std::size_t size_;
  std::vector<float> x_;
  GossipNote note_;
  bool shown_ = false;
};

}  // namespace sotto
