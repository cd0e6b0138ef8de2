// Averages a flat gradient of each rank in every step, compressed. Here ranks are threads. A rank sends a hundredth of
// its elements in a step. Error feedback keeps the others and sends them in later steps.
#include <cstdio>
#include <numeric>
#include <vector>

#include "sotto/aggregate/vector_averager.h"
#include "sotto/comm/emulated/threads.h"

int main() {
  sotto::run_threads(4, std::chrono::seconds(60), [](sotto::Communicator& ranks) {
    constexpr int steps = 1000;
    std::vector<float> gradient(10000);
    sotto::VectorAverager averager(ranks, gradient.size(), sotto::read_recipe("ef | topk(0.01)"));
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
      gradient.assign(gradient.size(), 1.0F + static_cast<float>(ranks.rank()));
      averager.average(gradient);
      sum += std::accumulate(gradient.begin(), gradient.end(), 0.0);
    }
    if (ranks.rank() != 0) return;
    std::printf("the mean is %.2f\n", sum / steps / static_cast<double>(gradient.size()));
    std::printf("%.0f bytes a step\n", static_cast<double>(ranks.traffic().bytes_sent) / steps);
  });
}
