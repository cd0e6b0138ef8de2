#include "sotto/aggregate/vector_gossiper.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/plain_floats.h"

namespace sotto {

VectorGossiper::VectorGossiper(Communicator& communicator, Topology topology, VectorGossiperOptions options)
    : communicator_(communicator),
      topology_(std::make_shared<const Topology>(std::move(topology))),
      options_(std::move(options)) {
  if (topology_->ranks() != communicator.size()) {
    throw ConfigError("the topology is one of " + std::to_string(topology_->ranks()) + " ranks, and there are " +
                      std::to_string(communicator.size()));
  }
  if (!options_.mixing) {
    options_.mixing = make_mixing({}, *topology_);
  } else if (const std::string problem = options_.mixing->problem(*topology_); !problem.empty()) {
    throw ConfigError(options_.mixing->text() + ": " + problem);
  }
  gossiper_of(0);  // refuses at once what cannot be used
}

Gossiper& VectorGossiper::gossiper_of(std::size_t size) {
  if (!gossiper_ || gossiper_->size() != size) {
    Layout layout({{"vector", 0, {static_cast<std::int64_t>(size)}}}, size);
    gossiper_.emplace(options_.codec, topology_, options_.mixing, std::move(layout), communicator_.rank(),
                      options_.pool);
  }
  return *gossiper_;
}

double VectorGossiper::mix(std::span<float> vector, double weight) {
  if (!(weight > 0) || !std::isfinite(weight)) {
    throw std::invalid_argument("a weight of " + std::to_string(weight) + ", where one above 0 is wanted");
  }
  const PlainFloats floats;
  communicator_.at_step(round_);
  const Key key{options_.seed, static_cast<std::uint16_t>(communicator_.rank()), 0, static_cast<std::uint32_t>(round_)};
  GossipNote note{.weight = weight};
  gossiper_of(vector.size()).mix(vector, note, key, communicator_, timings_);
  ++round_;
  return note.weight;
}

void VectorGossiper::average(std::span<float> vector, int rounds) {
  if (rounds < 0) throw std::invalid_argument(std::to_string(rounds) + " rounds");
  double weight = 1;
  const auto divide = [&] {
    if (weight == 1) return;
    for (float& value : vector) value = static_cast<float>(value / weight);
  };
  try {
    for (int i = 0; i < rounds; ++i) weight = mix(vector, weight);
  } catch (const Error&) {
    divide();
    throw;
  }
  divide();
}

}  // namespace sotto
