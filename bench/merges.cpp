// What it takes to add up messages: one by one, or merged before they are decoded (`clusters(shared=true)`). Messages
// are made of 16 vectors, or of the captured gradients that --file names. A made vector has a part that all ranks have
// in common and a part that no other rank has, of like size, both with long tails. Prints the rows of a table in
// Markdown: medians of --repeats runs on one thread, opening the messages included, and the errors of the sum, relative
// to the error of the vectors.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/record/capture.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace {

using namespace sotto;

constexpr std::size_t made = 16;
constexpr std::array<std::size_t, 5> counts{4, 16, 64, 256, 1024};

struct Inputs {
  Layout layout;
  std::vector<std::vector<float>> vectors;
};

Inputs make(std::int64_t elements) {
  Inputs inputs;
  inputs.layout.append("input", {1, elements});
  std::vector<float> common(inputs.layout.size());
  const auto fill = [&](std::uint64_t seed, std::vector<float>& out) {
    fill_sample("sample", "student", seed, std::span(out).first(static_cast<std::size_t>(elements)));
  };
  fill(1, common);
  for (std::size_t rank = 0; rank < made; ++rank) {
    auto& own = inputs.vectors.emplace_back(common.size());
    fill(2 + rank, own);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += common[i];
  }
  return inputs;
}

Inputs read(const std::vector<std::string>& files) {
  Inputs inputs;
  for (const std::string& path : files) {
    GradientFile file = read_safetensors_vector(path);
    require_finite(path, file);
    if (!inputs.vectors.empty() && file.values.size() != inputs.vectors[0].size()) {
      throw ConfigError(path + " has another layout than the files before it");
    }
    inputs.layout = file.layout;
    inputs.vectors.push_back(std::move(file.values));
  }
  return inputs;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void measure(const std::string& expression, const Inputs& inputs, std::int64_t repeats) {
  const std::vector<std::span<const float>> vectors(inputs.vectors.begin(), inputs.vectors.end());
  const auto codec = make_codec(read_stages(expression));
  std::vector<std::vector<MeasuredMerge>> runs;
  for (std::int64_t r = 0; r < repeats; ++r) runs.push_back(measure_merges(*codec, inputs.layout, vectors, counts));
  for (std::size_t c = 0; c < counts.size(); ++c) {
    std::vector<double> each, merged;
    for (const auto& run : runs) {
      each.push_back(1e3 * run[c].each.seconds);
      if (run[c].merged) merged.push_back(1e3 * run[c].merged->seconds);
    }
    const MeasuredMerge& last = runs.back()[c];
    fmt::print("| `{}` | {} | {:.0f} | ", expression, counts[c], median(each));
    if (last.merged) {
      fmt::print("{:.0f} | {:.1f} | {:.3f} | {:.3f} |\n", median(merged), median(each) / median(merged),
                 last.each.error, last.merged->error);
    } else {
      fmt::print(" | | {:.3f} | |\n", last.each.error);
    }
    std::fflush(stdout);
  }
}

void run(int argc, char** argv) {
  std::int64_t elements = 4'000'000;
  std::int64_t repeats = 3;
  std::vector<std::string> files, expressions;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      expressions.emplace_back(name);
      continue;
    }
    if (i + 1 == argc) throw ConfigError(std::string(name) + " wants a value");
    if (name == "--elements") {
      elements = parse_int(name, argv[++i], Bounds{1, 1e9});
    } else if (name == "--repeats") {
      repeats = parse_int(name, argv[++i], Bounds{1, 1000});
    } else if (name == "--file") {
      files.emplace_back(argv[++i]);
    } else {
      throw ConfigError(std::string(name) + " is unknown; there are --elements N, --repeats N, --file PATH and codecs");
    }
  }
  if (expressions.empty()) {
    expressions = {"clusters(c=5, buckets=2000, shared=true)", "clusters(c=5, decode=centre, shared=true)",
                   "clusters(c=8, buckets=2000, shared=true)", "clusters(c=4, decode=centre, shared=true)",
                   "clusters(c=2, decode=centre, shared=true)"};
  }
  const Inputs inputs = files.empty() ? make(elements) : read(files);
  fmt::print("commit {}, {}, {} floats, 1 thread, medians of {} repeats\n\n", SOTTO_COMMIT, SOTTO_COMPILER,
             inputs.layout.size(), repeats);
  fmt::print("| codec | messages | ms one by one | ms merged | times as fast | error one by one | error merged |\n");
  fmt::print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::string& expression : expressions) measure(expression, inputs, repeats);
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  fmt::print(stderr, "this is a debug build, whose speed says nothing: configure with -DCMAKE_BUILD_TYPE=Release\n");
  return 2;
#endif
  try {
    run(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_merges: {}\n", error.what());
    return 2;
  }
}
