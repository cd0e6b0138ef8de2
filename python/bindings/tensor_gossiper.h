#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "python/bindings/terms.h"
#include "sotto/aggregate/vector_gossiper.h"
#include "sotto/comm/communicator.h"
#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"

namespace sotto::python {

struct TensorGossiperOptions {
  TopologySpec topology;
  MixingSpec mixing;  // none: the default of the topology
  Recipe codec;
  std::uint64_t seed = 1;
  int codec_threads = 1;
};

// Averages a user's tensors with neighbours, round by round. Serves one thread. After any error except a ConfigError it
// cannot be used, because ranks that lost a message are in different rounds.
class TensorGossiper {
 public:
  // Collective. ConfigError if the ranks differ.
  TensorGossiper(TensorGossiperOptions options, std::shared_ptr<Communicator> communicator);

  // Runs one round on a tensor of float32, float16 or bfloat16, in place, and returns its new weight. Collective among
  // neighbours. ConfigError for wrong arguments: nothing was sent, and neighbours wait for the next call. NumericError
  // if a value is not finite, or CommError; neighbours are told of both.
  double mix(const at::Tensor& tensor, double weight);

  const Communicator& communicator() const { return *communicator_; }
  std::uint64_t round() const { return gossiper_->round(); }  // the number of the next one
  Consensus consensus() const;                                // takes O(ranks^3), so it is computed on demand
  std::string topology() const { return gossiper_->topology().text(); }

 private:
  void make(Terms& terms);
  double checked_mix(const at::Tensor& tensor, double weight);

  TensorGossiperOptions options_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<const Mixing> mixing_;
  std::optional<VectorGossiper> gossiper_;
};

}  // namespace sotto::python
