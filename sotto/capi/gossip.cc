#include <cmath>
#include <optional>
#include <utility>

#include "sotto/aggregate/vector_gossiper.h"
#include "sotto/capi/handles.h"
#include "sotto/capi/status.h"
#include "sotto/capi/vector_gossip.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_gossiper {
  VectorGossip gossip;
};

sotto_status sotto_gossiper_create(sotto_group* group, const char* topology, const char* mixing, const char* codec,
                                   uint64_t seed, int threads, sotto_gossiper** made) {
  return guarded([&] {
    require(group, "group");
    require(topology, "topology");
    require(made, "made");
    try {
      const GossipOptions options{.topology = read_topology(topology),
                                  .mixing = read_mixing(text_or(mixing, "")),
                                  .codec = read_recipe(text_or(codec, "none")),
                                  .seed = seed,
                                  .codec_threads = read_threads(threads)};
      *made = new sotto_gossiper{VectorGossip(options, group->communicator)};
    } catch (const std::exception& error) {
      group->communicator->give_up(error.what());
      throw;
    }
  });
}

void sotto_gossiper_free(sotto_gossiper* gossiper) { delete gossiper; }

sotto_status sotto_gossiper_mix(sotto_gossiper* gossiper, float* values, size_t count, double* weight) {
  return guarded([&] {
    require(gossiper, "gossiper");
    require(weight, "weight");
    *weight = gossiper->gossip.mix(span_of(values, count, "values"), *weight, "");
  });
}

uint64_t sotto_gossiper_round(const sotto_gossiper* gossiper) { return gossiper->gossip.round(); }
