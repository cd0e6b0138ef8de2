#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sotto/aggregate/gossiper.h"
#include "sotto/comm/communicator.h"
#include "sotto/topology/mixing_matrix.h"

namespace sotto::python {

struct TensorGossiperOptions {
  TopologySpec topology;
  MixingSpec mixing;  // none: the default of the topology
  Recipe codec;
  std::uint64_t seed = 1;
  int codec_threads = 1;
};

// Averages a user's tensors with neighbours, round by round. Serves one thread. After an error it cannot go on, because
// ranks that lost a message are in different rounds.
class TensorGossiper {
 public:
  // Collective. ConfigError if the ranks differ.
  TensorGossiper(TensorGossiperOptions options, std::shared_ptr<Communicator> communicator);

  // Runs one round on a tensor of float32, float16 or bfloat16, in place, and returns its new weight. Collective among
  // neighbours. ConfigError, NumericError if a value is not finite, CommError; neighbours are told of each.
  double mix(const at::Tensor& tensor, double weight);

  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t round() const { return round_; }  // the number of the next one
  Consensus consensus() const;                    // takes O(ranks^3), so it is computed on demand
  std::string topology() const { return make_graph().sentence(); }

 private:
  Topology make_graph() const;
  Gossiper& gossiper_of(const at::Tensor& tensor);
  double checked_mix(const at::Tensor& tensor, double weight);

  TensorGossiperOptions options_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<ThreadPool> pool_;
  std::uint64_t round_ = 0;
  Layout layout_;
  std::optional<Gossiper> gossiper_;  // for vectors of layout_
};

}  // namespace sotto::python
