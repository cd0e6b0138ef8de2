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
  MixingSpec mixing;  // none: the topology's own, or uniform
  Recipe codec;
  std::uint64_t seed = 1;
  int codec_threads = 1;
};

// Averages tensors of somebody else with neighbours, round by round. Serves one thread. After an error it cannot go on:
// ranks that lost a message no longer fit together.
class TensorGossiper {
 public:
  // Collective. ConfigError when ranks differ.
  TensorGossiper(TensorGossiperOptions options, std::shared_ptr<Communicator> communicator);

  // One round for a tensor of float32, float16 or bfloat16, in place; returns its new weight. Collective among
  // neighbours. ConfigError, NumericError for values that are not finite, CommError; neighbours learn of each.
  double mix(const at::Tensor& tensor, double weight);

  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t round() const { return round_; }  // the number of the next one
  Consensus consensus() const;                    // takes O(ranks^3): made when it is asked for
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
  std::optional<Gossiper> gossiper_;  // of that layout
};

}  // namespace sotto::python
