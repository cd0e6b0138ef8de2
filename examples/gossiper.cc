// A vector of each rank, averaged with those of neighbours; here ranks are threads.
#include "sotto/aggregate/gossiper.h"

#include <cstdio>

#include "sotto/comm/threads.h"
#include "sotto/topology/table.h"

int main() {
  sotto::run_threads(8, std::chrono::seconds(60), [](sotto::Communicator& ranks) {
    std::vector<float> mine(1000, static_cast<float>(ranks.rank()));
    const auto topology = std::make_shared<const sotto::Topology>(
        sotto::make_topology(sotto::read_topology("topology", "exponential"), ranks.size()));
    auto mixing = sotto::make_mixing({}, *topology);
    const sotto::Layout layout({{"mine", 0, {1000}}}, mine.size());
    sotto::Gossiper gossiper(sotto::read_recipe("none"), topology, std::move(mixing), layout, ranks.rank());
    sotto::GossipNote note;
    sotto::Timings seconds;
    sotto::Key key{.rank = static_cast<std::uint16_t>(ranks.rank())};
    for (key.step = 0; key.step < 3; ++key.step) gossiper.mix(mine, note, key, ranks, seconds);
    if (ranks.rank() == 0) std::printf("rank 0 has %g after 3 rounds\n", mine[0] / note.weight);
  });
}
