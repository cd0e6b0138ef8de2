// Averages each rank's vector with its neighbours' vectors. Here ranks are threads.
#include <cstdio>
#include <vector>

#include "sotto/aggregate/vector_gossiper.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/topology/table.h"

int main() {
  sotto::run_threads(8, std::chrono::seconds(60), [](sotto::Communicator& ranks) {
    std::vector<float> mine(1000, static_cast<float>(ranks.rank()));
    sotto::VectorGossiper gossiper(ranks, sotto::make_topology(sotto::read_topology("exponential"), ranks.size()));
    gossiper.average(mine, 3);
    if (ranks.rank() == 0) std::printf("rank 0 has %g after 3 rounds\n", mine[0]);
  });
}
