// Combines the vectors of all ranks, element by element. Here ranks are threads.
#include "sotto/aggregate/aggregate.h"

#include <cstdio>
#include <vector>

#include "sotto/comm/emulated/threads.h"

int main() {
  sotto::run_threads(4, std::chrono::seconds(60), [](sotto::Communicator& ranks) {
    std::vector<float> statistics = {1.0F + static_cast<float>(ranks.rank()), 5};
    std::vector<float> largest = statistics;
    sotto::aggregate(statistics, sotto::Op::avg, ranks);
    sotto::aggregate(largest, sotto::Op::max, ranks);
    if (ranks.rank() == 0) std::printf("mean %g, largest %g\n", statistics[0], largest[0]);
  });
}
