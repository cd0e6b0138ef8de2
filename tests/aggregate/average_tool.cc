// Runs a method and an aggregator over given gradients; tests in Python compare the means with their models'.
// Arguments: method, aggregator, ranks, steps, bucket bytes, NAME, input file, output file, shapes. The input file
// holds floats: first the values of the state NAME before the first step (nothing where NAME is ""; all other state
// starts as usual), then the gradient of each step and rank. The output file holds the mean of each step.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "sotto/aggregate/recipe.h"
#include "tests/aggregate/group.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

std::vector<float> take(std::ifstream& file, std::size_t count) {
  std::vector<float> values(count);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  if (!file) throw std::runtime_error("the input is too short");
  return values;
}

// Reads a shape such as "30x20".
std::vector<std::int64_t> shape_of(const std::string& text) {
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('x', at), text.size() - 1) + 1) {
    shape.push_back(std::atoll(text.c_str() + at));
  }
  return shape;
}

int run(const std::vector<std::string>& arguments) {
  const std::string& method = arguments.at(0);
  const std::string& name = arguments.at(1);
  const int ranks = std::stoi(arguments.at(2));
  const int steps = std::stoi(arguments.at(3));
  const auto bucket_bytes = static_cast<std::size_t>(std::stoul(arguments.at(4)));
  const std::string& remembered = arguments.at(5);
  std::ifstream input(arguments.at(6), std::ios::binary);
  std::ofstream output(arguments.at(7), std::ios::binary);
  std::vector<Segment> segments;
  std::size_t size = 0;
  for (std::size_t i = 8; i < arguments.size(); ++i) {
    segments.push_back({arguments[i], size, shape_of(arguments[i])});
    size += segments.back().numel();
  }
  const auto buckets = plan_buckets(Layout(segments, size), bucket_bytes);

  std::vector<std::vector<float>> means(static_cast<std::size_t>(steps));
  std::vector<std::vector<std::vector<float>>> given(static_cast<std::size_t>(ranks));
  std::vector<float> state;
  if (!remembered.empty()) {
    run_threads(1, 20s, [&](Communicator& communicator) {  // only to learn how many numbers that state has
      state = test::state_of(*make_aggregator(read_recipe(method, name), buckets, communicator)).floats.at(remembered);
    });
    state = take(input, state.size());
  }
  for (int step = 0; step < steps; ++step) {
    for (auto& of_rank : given) of_rank.push_back(take(input, size));
  }
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe(method, name), buckets, communicator);
    if (!remembered.empty()) {
      test::State all = test::state_of(*aggregator);
      all.floats.at(remembered) = state;
      test::restore(*aggregator, all);
    }
    for (int step = 0; step < steps; ++step) {
      auto& values = given[static_cast<std::size_t>(communicator.rank())][static_cast<std::size_t>(step)];
      test::average_all(*aggregator, buckets, values, step, communicator);
      if (communicator.rank() == 0) means[static_cast<std::size_t>(step)] = values;
    }
  });
  for (const auto& mean : means) {
    output.write(reinterpret_cast<const char*>(mean.data()), static_cast<std::streamsize>(mean.size() * sizeof(float)));
  }
  return output ? 0 : 1;
}

}  // namespace
}  // namespace sotto

int main(int count, char** arguments) {
  try {
    return sotto::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "average_tool: {}\n", error.what());
    return 1;
  }
}
