#include "sotto/capi/vector_gossip.h"

#include <fmt/format.h>

#include <cmath>

namespace sotto {

VectorGossip::VectorGossip(GossipOptions options, std::shared_ptr<Communicator> communicator)
    : options_(std::move(options)), communicator_(std::move(communicator)) {
  Terms terms;
  std::exception_ptr refusal;
  try {
    make(terms);
  } catch (const ConfigError&) {
    refusal = std::current_exception();
  }
  require_same_terms(*communicator_, terms, refusal, "gossips with others than");
}

void VectorGossip::make(Terms& terms) {
  Topology graph = make_topology(options_.topology, communicator_->size());
  mixing_ = make_mixing(options_.mixing, graph);
  terms = {{"what is averaged", "tensors"},
           {"topology", graph.text()},
           {"mixing", mixing_->text()},
           {"codec", options_.codec.source_text},
           {"seed", std::to_string(options_.seed)}};
  gossiper_.emplace(*communicator_, std::move(graph),
                    VectorGossiperOptions{options_.codec, mixing_, options_.seed,
                                          std::make_shared<ThreadPool>(options_.codec_threads)});
}

Consensus VectorGossip::consensus() const { return sotto::consensus(gossiper_->topology(), *mixing_); }

double VectorGossip::mix(std::span<float> values, double weight, std::string_view form) {
  if (!(weight > 0) || !std::isfinite(weight)) throw ConfigError(fmt::format("weight={}: wants one above 0", weight));
  try {
    communicator_->at_step(round());
    Hash mark;
    mark.add(fmt::format("{}: {}", round(), form));
    communicator_->require_same(mark.value(), "it mixes another tensor, or is in another round");
    return gossiper_->mix(values, weight);
  } catch (const std::exception& error) {
    communicator_->give_up(error.what());
    throw;
  }
}

}  // namespace sotto
