// Gossip between nodes, whose ranks share a model, equals gossip between as many single ranks, each with the mean
// gradient of a node.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::Quadratic;

// One worker whose gradient is the mean of the quadratics of `count` ranks from `first` on.
class MeanOf final : public Worker {
 public:
  MeanOf(int first, int count) {
    for (int rank = first; rank < first + count; ++rank) all_.emplace_back(rank);
  }
  std::span<float> parameters() override { return all_.front().parameters(); }
  std::span<float> gradient() override { return all_.front().gradient(); }
  std::span<const BucketPlan> buckets() const override { return all_.front().buckets(); }
  Optimiser& optimiser() override { return all_.front().optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    for (std::size_t i = 1; i < all_.size(); ++i) {
      std::ranges::copy(parameters(), all_[i].parameters().begin());
      all_[i].compute_gradient(step, {});
    }
    return all_.front().compute_gradient(step, {.needed = calls.needed, .ready = [&](std::size_t bucket) {
                                                  average(buckets()[bucket].range);
                                                  calls.ready(bucket);
                                                }});
  }

 private:
  void average(const Range& range) {
    const float share = 1.0F / static_cast<float>(all_.size());
    for (std::size_t i = range.begin; i < range.end; ++i) {
      float sum = gradient()[i];
      for (std::size_t other = 1; other < all_.size(); ++other) sum += all_[other].gradient()[i];
      gradient()[i] = sum * share;
    }
  }
  std::deque<Quadratic> all_;
};

struct NodesJob {
  const char* algorithm;
  const char* topology;
  const char* codec = "none";
};

AlgorithmOptions options_of(const NodesJob& job, int node_size) {
  AlgorithmOptions options;
  options.phases = test::read_phases(job.codec);
  options.topology = test::topology(job.topology);
  options.node_size = node_size;
  return options;
}

// Each rank's model after 20 steps. A second algorithm takes over the state and makes the last ten.
template <class MakeWorker>
std::vector<std::vector<float>> train(const NodesJob& job, int ranks, int node_size, const MakeWorker& make_worker) {
  std::vector<std::vector<float>> ends(static_cast<std::size_t>(ranks));
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    auto worker = make_worker(communicator.rank());
    auto algorithm =
        make_algorithm(test::algorithm(job.algorithm), options_of(job, node_size), worker->buckets(), communicator);
    for (std::uint64_t step = 0; step < 20; ++step) {
      if (step == 10) {
        algorithm->drain();
        algorithm->enter(step);
        auto again =
            make_algorithm(test::algorithm(job.algorithm), options_of(job, node_size), worker->buckets(), communicator);
        again->enter(step);
        test::hand_over(*algorithm, *again);
        algorithm = std::move(again);
      }
      algorithm->step(*worker, {step, 0.05, false});
    }
    algorithm->drain();
    ends[static_cast<std::size_t>(communicator.rank())].assign(worker->parameters().begin(),
                                                               worker->parameters().end());
    const auto before = algorithm->status().traffic.bytes_sent;
    algorithm->average_models(*worker);
    EXPECT_TRUE(node_size == 1 || before > 0);
    double sum = worker->parameters()[0];
    communicator.all_reduce(std::span(&sum, 1));
    EXPECT_NEAR(sum, ranks * static_cast<double>(worker->parameters()[0]), 1e-5 * ranks);
  });
  return ends;
}

TEST(Nodes, DoWhatRanksWithTheirMeanGradientDo) {
  for (const auto& [nodes, node_size] : {std::pair{2, 2}, {4, 2}, {3, 3}, {1, 2}}) {
    for (const NodesJob& job : {NodesJob{"push_sum", "exponential"},
                                {"push_sum(overlap=true)", "complete", "f16"},
                                {"d_psgd", "ring"},
                                {"choco", "complete", "qsgd(bits=4)"}}) {
      const auto apart =
          train(job, nodes * node_size, node_size, [](int rank) { return std::make_unique<Quadratic>(rank); });
      const auto wanted =
          train(job, nodes, 1, [size = node_size](int rank) { return std::make_unique<MeanOf>(rank * size, size); });
      for (std::size_t rank = 0; rank < apart.size(); ++rank) {
        const auto& node = wanted[rank / static_cast<std::size_t>(node_size)];
        EXPECT_EQ(0, std::memcmp(apart[rank].data(), node.data(), node.size() * sizeof(float)))
            << job.algorithm << ", " << nodes << " nodes of " << node_size << ": " << apart[rank][0] << ", " << node[0];
      }
    }
  }
}

TEST(Nodes, StopTogetherWhenOneRankIsAsked) {
  for (const int asked : {0, 3}) {
    std::vector<std::uint64_t> ended(6);
    run_threads(6, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto algorithm =
          make_algorithm(test::algorithm("push_sum"), options_of({"", "ring"}, 2), worker.buckets(), communicator);
      std::uint64_t step = 0;
      for (bool stop = false; !stop; ++step) {
        stop = algorithm->step(worker, {step, 0.05, communicator.rank() == asked && step >= 4}).stop;
      }
      ended[static_cast<std::size_t>(communicator.rank())] = step;
    });
    for (const std::uint64_t step : ended) EXPECT_EQ(step, ended[0]);
    EXPECT_LE(ended[0], 10U);
  }
}

TEST(Nodes, AreRefusedWhereThereAreNone) {
  const auto why = [](const char* algorithm, int node_size) {
    return message_of([&] { check_nodes(test::algorithm(algorithm), node_size, 4); });
  };
  EXPECT_EQ(why("push_sum(overlap=true)", 2), "");
  EXPECT_NE(why("sync", 2).find("exchanges no models"), std::string::npos);
  EXPECT_NE(why("ad_psgd", 2).find("at their own speed"), std::string::npos);
  EXPECT_NE(why("choco", 3).find("4 ranks do not fall into nodes of 3"), std::string::npos);
  const std::string error = message_of([] {
    run_threads(4, 20s, [](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      make_algorithm(test::algorithm("push_sum"), options_of({"", "ring"}, 3), worker.buckets(), communicator);
    });
  });
  EXPECT_NE(error.find("nodes of 3"), std::string::npos) << error;
}

}  // namespace
}  // namespace sotto
