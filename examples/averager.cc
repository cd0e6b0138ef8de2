// A flat gradient of each rank, compressed and averaged in every step; here ranks are threads. Each rank sends a
// hundredth of its elements a step; error feedback sends the others later.
#include <cstdio>
#include <vector>

#include "sotto/aggregate/vector_averager.h"
#include "sotto/comm/threads.h"

int main() {
  sotto::run_threads(4, std::chrono::seconds(60), [](sotto::Communicator& ranks) {
    std::vector<float> gradient(10000), sum(gradient.size());
    sotto::VectorAverager averager(ranks, gradient.size(), sotto::read_recipe("ef | topk(0.01)"));
    for (int step = 0; step < 200; ++step) {
      for (float& value : gradient) value = static_cast<float>(ranks.rank());
      averager.average(gradient);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    if (ranks.rank() == 0) {
      std::printf("a mean of %g a step, with %g bytes sent in each\n", sum[0] / 200,
                  static_cast<double>(ranks.traffic().bytes_sent) / 200);
    }
  });
}
