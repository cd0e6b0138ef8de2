// A rank is lost and another one comes in its place, as in an elastic run: it must train as the others do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sotto/aggregate/presets.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/perceptron.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Perceptron;

struct Place {
  std::string algorithm, codec, aggregator = "auto", optimiser = "auto";
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.algorithm << ", " << place.codec << ", " << place.aggregator;
}

// Every preset, every aggregator, and every algorithm whose ranks have one model and may be replaced.
std::vector<Place> places() {
  std::vector<Place> all;
  for (const Preset& preset : preset_table()) {
    const std::string name(preset.name);
    const bool momentum = !momentum_of(read_recipe(name)).empty();
    const std::string optimiser = preset.optimiser == "onebit-adam" ? "onebit-adam(warmup=3)"
                                  : preset.optimiser != "auto"      ? std::string(preset.optimiser)
                                  : momentum                        ? "sgd(momentum=0)"
                                                                    : "sgd(momentum=0.9)";
    all.push_back({"sync", name, "auto", optimiser});
  }
  for (const AggregatorEntry& entry : aggregator_table()) {
    if (entry.method != nullptr || entry.name == "hierarchical") continue;  // whose groups have one size
    const std::string codec = entry.name == "all_reduce" ? "ef | f16"
                              : entry.name == "vote"     ? "signs"
                                                         : "ef | topk(0.1)";
    all.push_back({"sync", codec, std::string(entry.name), "adam"});
  }
  for (const char* codec : {"auto", "auto(quality=medium)", "power(2)", "fetch(5%) | count_sketch(rows=3, columns=30%)",
                            "qsgd(bits=4)", "terngrad(shared=true)", "ef | clusters(c=2, shared=true)"}) {
    all.push_back({"sync", codec, "auto", "sgd(momentum=0)"});
  }
  for (const char* cast : {"f32", "f16"}) {
    for (const char* aggregator : {"auto", "all_reduce"}) {
      all.push_back({"sync", fmt::format("momentum(mean=true) | {}", cast), aggregator, "sgd(momentum=0)"});
    }
  }
  for (const char* algorithm : {"parameter_server", "parameter_server(servers=2)",
                                "parameter_server(down=qsgd(bits=4))", "parameter_server(servers=2, down=topk(0.3))"}) {
    all.push_back({algorithm, "ef | topk(0.1)", "auto", "adam"});
  }
  for (const char* algorithm : {"local(h=2)", "slowmo(h=2)", "diloco(h=2)"}) {
    all.push_back({algorithm, "ef | topk(0.1)", "auto", "sgd(momentum=0.9)"});
  }
  return all;
}

// What a rank keeps of a step to which all go back.
struct Kept {
  test::Store state, optimiser;
  std::vector<float> parameters;
};

AlgorithmOptions options_of(const Place& place, Worker& worker) {
  return {.phases = start_after(worker.optimiser().dense_steps(), test::read_phases(place.codec, place.aggregator))};
}

class Newcomers : public testing::TestWithParam<Place> {};

TEST_P(Newcomers, TrainAsTheOthersDo) {
  const Place& place = GetParam();
  constexpr int ranks = 3, lost = 1;
  constexpr std::uint64_t begin = 8, end = 16;  // a round of local steps ends at both
  constexpr double lr = 0.01;
  std::vector<Kept> kept(ranks);
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    Kept& own = kept[static_cast<std::size_t>(communicator.rank())];
    Perceptron worker(communicator.rank(), place.optimiser);
    const auto algorithm =
        make_algorithm(test::algorithm(place.algorithm), options_of(place, worker), worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < begin; ++step) algorithm->step(worker, {step, lr, false});
    algorithm->drain();
    algorithm->enter(begin);
    own.parameters.assign(worker.parameters().begin(), worker.parameters().end());
    algorithm->visit_state(own.state);
    worker.optimiser().visit_state(own.optimiser);
    own.state.reading = own.optimiser.reading = true;
  });
  std::vector<std::vector<float>> ends(ranks);
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const bool is_new = rank == lost;
    Kept& own = kept[is_new ? 0 : static_cast<std::size_t>(rank)];
    Perceptron worker(rank, place.optimiser);
    const auto algorithm =
        make_algorithm(test::algorithm(place.algorithm), options_of(place, worker), worker.buckets(), communicator);
    algorithm->enter(begin);
    std::ranges::copy(own.parameters, worker.parameters().begin());
    test::Store state = own.state, optimiser = own.optimiser;
    worker.optimiser().visit_state(optimiser);
    algorithm->elastic()->visit_shared(state);
    const FormerRank self{rank, ranks, &state};
    if (!is_new) algorithm->elastic()->take_over({&self, 1});
    algorithm->elastic()->sync_after_change(worker, is_new);
    for (std::uint64_t step = begin; step < end; ++step) {
      algorithm->step(worker, {step, lr, false});
      algorithm->drain();
    }
    ends[static_cast<std::size_t>(rank)].assign(worker.parameters().begin(), worker.parameters().end());
  });
  EXPECT_NE(ends[0], kept[0].parameters);
  for (int rank = 1; rank < ranks; ++rank) EXPECT_EQ(ends[static_cast<std::size_t>(rank)], ends[0]) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(All, Newcomers, testing::ValuesIn(places()));

}  // namespace
}  // namespace sotto
