// Errors and losses of aggregators, with the gradients of a network of 784, 128 and 10 units on generated digits. Ranks
// are threads.
//   bench_aggregators errors RANKS ..              relative error of the mean, and bytes, by codec and aggregator; and
//                                                  the choice of `auto`
//   bench_aggregators training RANKS STEPS RATE [CODEC ..]
//                                                  loss of plain SGD after a quarter, half and all of STEPS, by codec
//                                                  and aggregator
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/kernels/matrix.h"

namespace {

using namespace sotto;
using namespace std::chrono_literals;

constexpr const char* codecs[] = {"none",
                                  "f32 | zstd",
                                  "int8",
                                  "qsgd(bits=4)",
                                  "qsgd(bits=4) | rans",
                                  "qsgd(bits=2)",
                                  "natural",
                                  "terngrad",
                                  "atomo(5%)",
                                  "atomo(25%)",
                                  "svd | atomo(s=3)",
                                  "ef | sign(block=128)",
                                  "ef | qsgd(bits=4)",
                                  "ef | topk(0.01)",
                                  "ef | topk(0.1)",
                                  "ef | topk(0.1) | qsgd(bits=4)",
                                  "topk(0.05)"};
constexpr const char* aggregators[] = {"gather", "scatter_reduce", "sparse"};
constexpr std::size_t inputs = 784, hidden = 128, classes = 10;

Layout network() {
  Layout layout;
  layout.append("fc1.weight", {hidden, inputs});
  layout.append("fc1.bias", {hidden});
  layout.append("fc2.weight", {classes, hidden});
  layout.append("fc2.bias", {classes});
  return layout;
}

struct Examples {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};

Examples read_examples(std::size_t count) {
  DataOptions options;
  options.train_size = static_cast<std::int64_t>(count);
  const auto data = open_dataset(options, Split::train);
  Examples examples{std::vector<float>(count * inputs), std::vector<std::int64_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    data->read(i, std::span(examples.images).subspan(i * inputs, inputs), examples.labels[i]);
  }
  return examples;
}

std::vector<float> begin(const Layout& layout) {
  std::vector<float> parameters(layout.size());
  Philox random(3, Purpose::test, 0);
  for (const std::size_t s : {0, 2}) {
    const Segment& segment = layout.segments()[s];
    const double fan = std::sqrt(2.0 / static_cast<double>(segment.shape[1]));
    for (std::size_t i = 0; i < segment.numel(); ++i) {
      parameters[segment.offset + i] = static_cast<float>(fan * random.normal());
    }
  }
  return parameters;
}

// Returns the mean loss of `count` examples from `first` on, and writes its gradient.
double compute(const Layout& layout, const std::vector<float>& parameters, const Examples& examples, std::size_t first,
               std::size_t count, std::vector<float>& gradient) {
  const auto segments = layout.segments();
  const auto at = [&](std::size_t s) { return segments[s].offset; };
  std::ranges::fill(gradient, 0.0F);
  double loss = 0;
  std::vector<float> units(hidden), errors(hidden), out(classes);
  for (std::size_t e = first; e < first + count; ++e) {
    const auto image = std::span(examples.images).subspan(e * inputs, inputs);
    for (std::size_t j = 0; j < hidden; ++j) {
      const auto weights = std::span(parameters).subspan(at(0) + j * inputs, inputs);
      units[j] = std::max(0.0F, static_cast<float>(kernels::dot(weights, image)) + parameters[at(1) + j]);
    }
    double most = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      float sum = parameters[at(3) + k];
      for (std::size_t j = 0; j < hidden; ++j) sum += parameters[at(2) + k * hidden + j] * units[j];
      out[k] = sum;
      most = std::max<double>(most, sum);
    }
    for (std::size_t k = 0; k < classes; ++k) total += std::exp(out[k] - most);
    const auto label = static_cast<std::size_t>(examples.labels[e]);
    loss += std::log(total) + most - out[label];
    std::ranges::fill(errors, 0.0F);
    for (std::size_t k = 0; k < classes; ++k) {
      const double share = std::exp(out[k] - most) / total - (k == label ? 1 : 0);
      const auto slope = static_cast<float>(share / static_cast<double>(count));
      gradient[at(3) + k] += slope;
      for (std::size_t j = 0; j < hidden; ++j) {
        gradient[at(2) + k * hidden + j] += slope * units[j];
        errors[j] += slope * parameters[at(2) + k * hidden + j];
      }
    }
    for (std::size_t j = 0; j < hidden; ++j) {
      if (units[j] <= 0) continue;
      gradient[at(1) + j] += errors[j];
      for (std::size_t i = 0; i < inputs; ++i) gradient[at(0) + j * inputs + i] += errors[j] * image[i];
    }
  }
  return loss / static_cast<double>(count);
}

struct Result {
  double loss = 0;   // of the test examples, at the end
  double error = 0;  // root of the mean over the steps of |mean - exact mean|^2 / |exact mean|^2
  double bytes = 0;  // per step, of the rank that sends most
  std::string remark;
};

constexpr std::size_t batch = 16, kept = 1000;

Result train(const std::string& codec, const std::string& aggregator_name, int ranks, int steps, float rate) {
  const Layout layout = network();
  const auto buckets = plan_buckets(layout, 1U << 20);
  static const Examples examples = read_examples(21000);
  Result result;
  run_threads(ranks, 100s, [&](Communicator& communicator) {
    const auto aggregator = make_aggregator(read_recipe(codec, aggregator_name), buckets, communicator);
    std::vector<float> parameters = begin(layout), gradient(layout.size());
    const auto rank = static_cast<std::size_t>(communicator.rank());
    double bytes = 0;
    double errors = 0;
    for (int step = 0; step < steps; ++step) {
      const std::size_t batches = (examples.labels.size() - kept) / batch;
      const std::size_t number = static_cast<std::size_t>(step * ranks) + rank;
      compute(layout, parameters, examples, kept + number % batches * batch, batch, gradient);
      std::vector<float> exact = gradient;
      communicator.all_reduce(std::span(exact));
      const std::uint64_t before = communicator.traffic().bytes_sent;
      Timings timings;
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        const Range range = buckets[b].range;
        Bucket bucket{std::span(gradient).subspan(range.begin, range.size()), &buckets[b].layout,
                      static_cast<std::uint16_t>(b)};
        aggregator->average(bucket, {7, static_cast<std::uint16_t>(rank), 0, static_cast<std::uint32_t>(step)},
                            {static_cast<std::uint64_t>(step), rate}, communicator, timings);
      }
      bytes += static_cast<double>(communicator.traffic().bytes_sent - before);
      double off = 0, whole = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double mean = exact[i] / static_cast<float>(ranks);
        off += std::pow(gradient[i] - mean, 2);
        whole += mean * mean;
      }
      errors += off / whole;
      for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= rate * gradient[i];
    }
    communicator.all_reduce({&bytes, 1}, ReduceOp::max);
    if (rank != 0) return;
    result.loss = compute(layout, parameters, examples, 0, kept, gradient);
    result.error = std::sqrt(errors / steps);
    result.bytes = bytes / steps;
    result.remark = aggregator->remark();
  });
  return result;
}

bool suits(const std::string& codec, const std::string& aggregator) {
  const auto buckets = plan_buckets(network(), 1U << 20);
  const Recipe recipe = read_recipe(codec, aggregator);
  if (aggregator == "sparse" && !recipe.memory) return false;
  try {
    check_aggregator(recipe, buckets);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

void print_errors(int ranks) {
  for (const char* codec : codecs) {
    fmt::print("| `{}` | {} |", codec, ranks);
    for (const char* aggregator : aggregators) {
      if (!suits(codec, aggregator)) {
        fmt::print(" |");
        continue;
      }
      const Result result = train(codec, aggregator, ranks, 3, 0.05F);
      fmt::print(" {:.3g}, {:.1f} KiB |", result.error, result.bytes / 1024);
    }
    fmt::print(" {} |\n", train(codec, "auto", ranks, 1, 0.05F).remark);
  }
}

void print_training(int ranks, int steps, float rate, std::span<const std::string> chosen) {
  for (const std::string& codec : chosen) {
    fmt::print("| `{}` | {} |", codec, ranks);
    for (const char* aggregator : aggregators) {
      if (!suits(codec, aggregator)) {
        fmt::print(" |");
        continue;
      }
      for (int part = 4; part >= 1; part /= 2) {
        fmt::print(" {:.3f}", train(codec, aggregator, ranks, steps / part, rate).loss);
      }
      fmt::print(" |");
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "training" && argc > 4) {
      std::vector<std::string> chosen(argv + 5, argv + argc);
      if (chosen.empty()) chosen.assign(std::begin(codecs), std::end(codecs));
      print_training(std::atoi(argv[2]), std::atoi(argv[3]), std::strtof(argv[4], nullptr), chosen);
    } else if (what == "errors" && argc > 2) {
      for (int i = 2; i < argc; ++i) print_errors(std::atoi(argv[i]));
    } else {
      fmt::print("bench_aggregators errors RANKS .. | training RANKS STEPS RATE [CODEC ..]\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_aggregators: {}\n", error.what());
    return 1;
  }
}
