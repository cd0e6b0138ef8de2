// Optimisers that need whole tensors, with algorithms that apply the mean bucket by bucket.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/perceptron.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Perceptron;

std::vector<float> trained(const char* algorithm, const char* optimiser, int ranks, std::size_t bucket_bytes) {
  std::vector<float> end;
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Perceptron worker(communicator.rank(), optimiser, bucket_bytes);
    const auto made = make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 6; ++step) made->step(worker, {step, 0.02, false});
    made->drain();
    if (communicator.rank() == 0) end.assign(worker.parameters().begin(), worker.parameters().end());
  });
  return end;
}

void expect_same(const char* algorithm, const char* optimiser, int ranks) {
  const auto wanted = trained("sync", optimiser, ranks, 1 << 20), found = trained(algorithm, optimiser, ranks, 64);
  ASSERT_EQ(found.size(), wanted.size());
  float most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) most = std::max(most, std::abs(found[i] - wanted[i]));
  EXPECT_LT(most, 1e-5) << algorithm << ", " << optimiser << ", " << ranks;
}

TEST(TrustRatios, AreThoseOfWholeTensorsWhateverTheAlgorithm) {
  for (const char* optimiser : {"lars(trust=0.5, weight-decay=0.1)", "lamb(weight-decay=0.1)"}) {
    for (const char* algorithm : {"sync", "sync(priority=need)", "parameter_server"}) {
      for (const int ranks : {1, 2, 3}) expect_same(algorithm, optimiser, ranks);
    }
    // Ranks of these algorithms average models. With one rank, the steps are the same.
    for (const char* algorithm : {"parameter_server(mode=async)", "push_sum", "d_psgd", "local(h=2)", "ad_psgd"}) {
      expect_same(algorithm, optimiser, 1);
    }
  }
}

}  // namespace
}  // namespace sotto
