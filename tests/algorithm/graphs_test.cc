// Algorithms refuse graphs that they cannot use, before ranks meet.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::Perceptron;
using test::Quadratic;

struct Given {
  std::string topology;
  std::string mixing{};  // empty for the default
  int ranks = 4;
};

const std::vector<Given> graphs{
    {"ring"},
    {"complete", "metropolis"},
    {"star"},
    {"star", "metropolis"},
    {"exponential"},
    {"ring", "", 3},
    {"graph(1; 2; 3; 0)"},
    {"rign"},
    {"bipartite_exponential"},
    {"ring", "unifrom"},
    {"star", "", 1},
    {"bipartite_linear", "", 3},
    {"ring", "self_weighted(0.5)"},
    {"graph(1; 0; 3; 2)"},
    {"graph(1 2; 0 2; 0 1; 0)"},
};

// An algorithm, a graph that it refuses, and its reason.
struct Refusal {
  std::string algorithm;
  Given given;
  std::string words;
};
const std::vector<Refusal> refusals{
    {"push_sum", {"graph(1; 0; 3; 2)"}, "never reaches another"},
    {"d_psgd", {"graph(1; 0; 3; 2)"}, "never reaches another"},
    {"ad_psgd", {"graph(1; 0; 3; 2)"}, "never reaches another"},
    {"choco", {"graph(1; 0; 3; 2)"}, "never reaches another"},
    {"d_psgd", {"star"}, "wants a doubly stochastic mixing"},
    {"choco", {"exponential"}, "changes them from round to round"},
    {"ad_psgd", {"ring", "", 3}, "two such sides"},
    {"ad_psgd", {"star", "metropolis"}, "leave mixing out"},
};

std::string before(const std::string& algorithm, const Given& given) {
  return message_of([&] {
    check_graph(test::algorithm(algorithm), test::topology(given.topology), test::mixing(given.mixing), given.ranks);
  });
}

TEST(Graphs, AreRefusedBeforeRanksMeetAsWhenTheyDo) {
  for (const AlgorithmEntry& entry : algorithm_table()) {
    if (!entry.graph.used) continue;
    const std::string algorithm(entry.name);
    for (const Given& given : graphs) {
      run_threads(given.ranks, 20s, [&](Communicator& communicator) {
        Quadratic worker(communicator.rank());
        const auto make = [&] {
          AlgorithmOptions options;
          options.topology = test::topology(given.topology);
          options.mixing = test::mixing(given.mixing);
          make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
        };
        EXPECT_EQ(message_of(make), before(algorithm, given)) << algorithm << " on " << given.topology;
      });
    }
  }
}

TEST(Graphs, AreRefusedForAReason) {
  for (const Refusal& refusal : refusals) {
    const std::string message = before(refusal.algorithm, refusal.given);
    EXPECT_NE(message.find(refusal.words), std::string::npos)
        << refusal.algorithm << " on " << refusal.given.topology << ": " << message;
  }
  for (const AlgorithmEntry& entry : algorithm_table()) {
    if (!entry.graph.used) continue;
    EXPECT_EQ(before(std::string(entry.name), {std::string(entry.graph.topology)}), "");
  }
}

TEST(Graphs, RefuseWhatDoesNotFit) {
  run_threads(2, 20s, [](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    const auto why = [&](const char* algorithm, const char* topology, const char* codec) {
      return message_of([&] {
        AlgorithmOptions options;
        options.topology = test::topology(topology);
        options.phases = test::read_phases(codec);
        make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
      });
    };
    EXPECT_NE(why("push_sum(synch_freq=2)", "ring", "none").find("overlap=true"), std::string::npos);
    EXPECT_NE(why("push_sum", "ring", "qsgd").find("models are exchanged"), std::string::npos);
    EXPECT_NE(why("push_sum", "rign", "none").find("did you mean `ring`"), std::string::npos);
    EXPECT_NE(why("choco", "ring", "signs").find("codec signs"), std::string::npos);
    EXPECT_NE(why("choco", "ring", "ef | topk(0.1)").find("no memory"), std::string::npos);
  });
}

TEST(Graphs, RefuseAStateOfAnotherLength) {
  for (const char* name : {"push_sum", "push_sum(overlap=true)", "choco"}) {
    run_threads(2, 20s, [&](Communicator& communicator) {
      Perceptron worker(communicator.rank(), "sgd");
      AlgorithmOptions options;
      options.topology = test::topology("ring");
      const auto make = [&] { return make_algorithm(test::algorithm(name), options, worker.buckets(), communicator); };
      const auto algorithm = make();
      algorithm->step(worker, {0, 0.02, false});
      algorithm->drain();
      test::Store good;
      algorithm->visit_state(good);
      good.reading = true;
      for (const auto& [vector, values] : good.floats) {
        for (const std::size_t size : {std::size_t{0}, values.size() - 1}) {
          if (size == 0 && vector.ends_with(".x")) continue;
          test::Store bad = good;
          bad.floats[vector].resize(size);
          EXPECT_THROW(make()->visit_state(bad), FileError) << name << ": " << vector << " of " << size;
        }
      }
    });
  }
}

}  // namespace
}  // namespace sotto
