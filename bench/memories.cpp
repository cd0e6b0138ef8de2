// Speed of methods with their memory: prepare, encode and settle together, and decode. Each method is verified (no part
// of the gradient may be lost), then timed: medians of --repeats runs, as multiples of a memcpy of the gradient, which
// is timed between the runs.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/measure.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"

namespace {

using namespace sotto;

struct Row {
  std::string method;
  double encode_bar = 0, decode_bar = 0;  // multiples of memcpy; 0: no bar
};

class Bench {
 public:
  explicit Bench(std::int64_t elements) {
    layout_.append("input", {1, elements});
    gradient_.resize(layout_.size());
    decoded_.resize(layout_.size());
    buckets_ = plan_buckets(layout_, gradient_.size() * sizeof(float));
    fill_sample("sample", "gaussian", 1, std::span(gradient_).first(static_cast<std::size_t>(elements)));
  }

  void run(const Row& row, int repeats) {
    const Recipe recipe = read_recipe(row.method);
    const auto memory = make_memory(recipe.memory, {buckets_, 1});
    const auto codec = make_codec(recipe.stages);
    const auto opened = codec->make_opened();
    const Bucket bucket{gradient_, &layout_, 0};
    Bucket out{decoded_, &layout_, 0};
    const Range whole{0, gradient_.size()};
    Message message;
    std::vector<double> copy, prepare, encode, settle, all, decode;
    for (int repeat = -1; repeat < repeats; ++repeat) {  // run -1 warms up
      const Key key{.step = static_cast<std::uint32_t>(repeat + 1)};
      Timer timer;
      std::memcpy(decoded_.data(), gradient_.data(), gradient_.size() * sizeof(float));
      copy.push_back(timer.lap());
      Bucket prepared = memory->prepare(bucket, {key.step, 0.1}, {});
      prepare.push_back(timer.lap());
      codec->encode(prepared, key, {}, {&whole, 1}, {&message, 1});
      encode.push_back(timer.lap());
      std::ranges::copy(prepared.values, decoded_.begin());
      timer.lap();
      opened->open(message.view(), layout_, whole);
      memory->settle(prepared, *opened);
      settle.push_back(timer.lap());
      all.push_back(prepare.back() + encode.back() + settle.back());
      opened->open(message.view(), layout_, whole);
      opened->add_to(out, -1);
      decode.push_back(timer.lap());
      if (repeat < 0) {
        if (!std::ranges::equal(decoded_, prepared.values)) {
          throw NumericError(row.method + ": what was sent and what is held are not what was offered");
        }
        for (auto* times : {&copy, &prepare, &encode, &settle, &all, &decode}) times->clear();
      }
    }
    const double bytes = static_cast<double>(gradient_.size() * sizeof(float)) * 1e-9;
    const double memcpy_seconds = median(copy);
    const auto speed = [&](std::vector<double>& seconds, double bar) {
      const double times = memcpy_seconds / median(seconds);
      const std::string text = fmt::format("{:>6.2f} {:>6.2f}x", bytes / median(seconds), times);
      return bar == 0 ? text : fmt::format("{} of {:.2f} {:<6}", text, bar, times >= bar ? "ok" : "MISSED");
    };
    fmt::print("{:<36} | {:<30} | {:<15} | {:<15} | {:<15} | {:<30} | {:>6.2f}\n", row.method,
               speed(all, row.encode_bar), speed(prepare, 0), speed(encode, 0), speed(settle, 0),
               speed(decode, row.decode_bar), bytes / memcpy_seconds);
    std::fflush(stdout);
  }

 private:
  static double median(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> gradient_, decoded_;
};

void run(int argc, char** argv) {
  std::int64_t elements = 25'000'000;
  std::int64_t repeats = 9;
  std::vector<Row> rows;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      rows.push_back({std::string(name)});
      continue;
    }
    if (i + 1 == argc) throw ConfigError(std::string(name) + " wants a value");
    if (name == "--elements") {
      elements = parse_int(name, argv[++i], Bounds{1, 1e9});
    } else if (name == "--repeats") {
      repeats = parse_int(name, argv[++i], Bounds{1, 1000});
    } else {
      throw ConfigError(std::string(name) + " is unknown; there are --elements N, --repeats N and methods");
    }
  }
  if (rows.empty()) {
    rows = {{"momentum | sampled_topk(0.001)", 0.25, 2.0},
            {"momentum | sampled_topk(0.01)", 0.25, 2.0},
            {"momentum(nesterov=true, clip=1) | sampled_topk(0.001)"},
            {"ef | sampled_topk(0.001)"},
            {"memsgd | topk(0.001)"},
            {"demo | topk(0.001)"}};
  }
  fmt::print("commit {}, {}, {} floats, 1 thread, medians of {} repeats; GB/s of the gradient, and of memcpy\n",
             SOTTO_COMMIT, SOTTO_COMPILER, elements, repeats);
  fmt::print("{:<36} | {:<30} | {:<15} | {:<15} | {:<15} | {:<30} | {:>6}\n", "method", "prepare, encode and settle",
             "prepare", "encode", "settle", "decode-add", "memcpy");
  Bench bench(elements);
  for (const Row& row : rows) bench.run(row, static_cast<int>(repeats));
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
    fmt::print(stderr, "bench_memories: {}\n", error.what());
    return 2;
  }
}
