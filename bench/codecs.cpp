// Speed of codecs, including message assembly and checks. Each codec is verified, then timed: medians of --repeats
// runs. memcpy of the same input is timed between the runs, and speeds are also given as multiples of it. Without
// codecs as arguments, it measures those that have a bar, the least speed that they should reach. A second table has
// the speed-up of --threads N over one thread, timed in turns, and the speed-up of memcpy; its bar is for two threads.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/train/record/capture.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/thread_pool.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/reduce.h"

namespace {

using namespace sotto;

struct Arguments {
  std::int64_t elements = 25'000'000;
  std::int64_t repeats = 9;
  std::int64_t threads = 2;
  std::vector<std::string> samples;
  std::vector<std::string> files;
  std::vector<std::string> codecs;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      arguments.codecs.emplace_back(name);
      continue;
    }
    if (i + 1 == argc) throw ConfigError(std::string(name) + " wants a value");
    const std::string_view value = argv[++i];
    if (name == "--elements") {
      arguments.elements = parse_int(name, value, Bounds{1, 1e9});
    } else if (name == "--repeats") {
      arguments.repeats = parse_int(name, value, Bounds{1, 1000});
    } else if (name == "--threads") {
      arguments.threads = parse_int(name, value, Bounds{1, 256});
    } else if (name == "--sample") {
      arguments.samples.emplace_back(value);
    } else if (name == "--file") {
      arguments.files.emplace_back(value);
    } else {
      throw ConfigError(std::string(name) +
                        " is unknown; there are --elements N, --repeats N, --threads N, --sample NAME, "
                        "--file GRADIENT (both several times) and codecs");
    }
  }
  if (arguments.samples.empty() && arguments.files.empty()) arguments.samples = {"gaussian", "student"};
  return arguments;
}

struct Input {
  std::string name;
  Layout layout;
  std::vector<float> values;
};

Input make_input(const Arguments& arguments, const std::string& sample) {
  const auto elements = static_cast<std::size_t>(arguments.elements);
  Input input{sample, {{{"input", 0, {arguments.elements}}}, elements}, std::vector<float>(elements)};
  fill_sample("sample", sample, 1, input.values);
  return input;
}

// Reads a gradient that `sotto train --capture` wrote.
Input read_input(const std::string& path) {
  GradientFile file = read_safetensors_vector(path);
  return {"captured", std::move(file.layout), std::move(file.values)};
}

// A codec, and its bars for encoding and decoding as multiples of memcpy; 0: no bar.
struct Row {
  std::string codec;
  double encode_bar = 0;
  double decode_bar = 0;
};

// The magnitude that one element in a hundred reaches, as text.
std::string percentile(const Input& input) {
  std::vector<float> magnitudes(input.values.size());
  std::transform(input.values.begin(), input.values.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
  const auto place = magnitudes.begin() + static_cast<std::ptrdiff_t>(magnitudes.size() * 99 / 100);
  std::nth_element(magnitudes.begin(), place, magnitudes.end());
  return fmt::format("{:.4g}", *place);
}

std::vector<Row> rows(const Arguments& arguments, const Input& input) {
  std::vector<Row> rows;
  for (const std::string& expression : arguments.codecs) rows.push_back({expression});
  if (!rows.empty()) return rows;
  return {{"sign", 1.2, 1.0},
          {"f16", 1.0, 0.9},
          {"bf16", 1.0, 0.9},
          {"int8", 1.0, 0.9},
          {"uint8", 1.0, 0.9},
          {"int4", 1.0, 0.9},
          {"qsgd(bits=4)", 0.7, 0.9},
          {"terngrad", 0.7, 0.9},
          {"terngrad(pack=trits)", 0.7, 0.9},
          {"natural", 0.7, 0.9},
          {"fp8", 0.7, 0.9},
          {"fp8(e5m2)", 0.7, 0.9},
          {"int8(stochastic=true)", 0.7, 0.9},
          {"threshold(" + percentile(input) + ")", 0.5, 2.0},
          {"sampled_topk(0.001)", 0.5, 2.0},
          {"sampled_topk(0.01)", 0.5, 2.0},
          {"topk(0.001)", 0.4, 2.0},
          {"topk(0.01)", 0.4, 2.0},
          {"atomo(s=1%)", 0.3, 2.0},
          {"qsgd(bits=4) | rans", 0.15, 0.2},
          {"quantile", 0.03, 0.05},
          {"quantile | minmax_sketch", 0.03, 0.05},
          {"topk(0.01) | quantile | minmax_sketch", 0.03, 0.05},
          {"clusters", 0.05, 0.1},
          {"clusters(c=5, buckets=2000)", 0.05, 0.1},
          {"f32"},
          {"randomk(0.01)"},
          {"block(64, 0.01)"},
          {"count_sketch"},
          {"dct(64) | topk(0.01)"},
          {"hadamard | int8"},
          {"qsgd(bits=8)"},
          {"adaptive"},
          {"topk(0.01) | qsgd(bits=4)"}};
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// Throws when the error is above the contract's, so that no damaged or biased codec is timed.
void verify(Codec& codec, const Input& input) {
  const Contract contract = codec.contract(input.layout);
  const double error = measure(codec, input.layout, input.values, 1).relative_error;
  const double square = error * error;
  const bool good = contract.kind == Contract::Kind::exact      ? error == 0
                    : contract.kind == Contract::Kind::unbiased ? square <= 1.1 * contract.omega
                    : contract.kind == Contract::Kind::contraction
                        ? square <= 1 - contract.delta + 1e-3  // a mean over several draws, because of heavy tails
                        : std::isfinite(square);
  if (!good)
    throw NumericError(
        fmt::format("{}: a relative error of {}, which its contract forbids", codec.traits().text, error));
}

// Such as "12.34 1.23x of 1.0 ok": GB/s, multiple of memcpy, bar.
std::string speed(double gbps, double memcpy_gbps, double bar) {
  const double times = gbps / memcpy_gbps;
  const std::string text = fmt::format("{:>6.2f} {:>6.2f}x", gbps, times);
  return bar == 0 ? text + "             "
                  : fmt::format("{} of {:<4.2g} {:<6}", text, bar, times >= bar ? "ok" : "MISSED");
}

// GB/s of a pass that only reads every value. Every codec needs one such pass, some need two.
double look_gbps(const Input& input, std::int64_t repeats) {
  std::vector<double> seconds;
  for (std::int64_t repeat = -1; repeat < repeats; ++repeat) {
    Timer timer;
    if (kernels::max_abs_bits(input.values) >= kernels::infinity_bits) throw NumericError("a value is not finite");
    if (repeat >= 0) seconds.push_back(timer.seconds());
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return static_cast<double>(input.values.size() * sizeof(float)) / *middle * 1e-9;
}

void run_on(const Input& input, const Arguments& arguments) {
  fmt::print("{:<9} | {:>9} | {:<43} | {:>6.2f}\n", input.name, input.values.size(), "a look at every value",
             look_gbps(input, arguments.repeats));
  for (const Row& row : rows(arguments, input)) {
    const auto codec = make_codec(read_stages(row.codec));
    verify(*codec, input);
    const Measurement m = measure(*codec, input.layout, input.values, static_cast<int>(arguments.repeats));
    fmt::print("{:<9} | {:>9} | {:<43} | {:<28} | {:<28} | {:>8.4f} | {:>10.2e} | {:>6.2f}\n", input.name, m.elements,
               row.codec, speed(m.encode_gbps, m.memcpy_gbps, row.encode_bar),
               speed(m.decode_gbps, m.memcpy_gbps, row.decode_bar),
               static_cast<double>(m.bytes) / static_cast<double>(m.elements), m.relative_error, m.memcpy_gbps);
    std::fflush(stdout);
  }
}

// Such as "1.90x of 1.8 ok": a speed-up and its bar.
std::string gain(double times, double bar) {
  return fmt::format("{:>5.2f}x of {:.1f} {:<6}", times, bar, times >= bar ? "ok" : "MISSED");
}

// The seconds of a copy that all threads share.
double copy_seconds(ThreadPool& pool, std::span<const float> from, std::span<float> to) {
  Timer timer;
  const std::size_t share = from.size() / static_cast<std::size_t>(pool.threads()) + 1;
  pool.run_stretches(from.size(), share, [&](std::size_t begin, std::size_t end) {
    std::copy(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end),
              to.begin() + static_cast<std::ptrdiff_t>(begin));
  });
  return timer.seconds();
}

double copy_gain(const Input& input, ThreadPool& several, std::int64_t repeats) {
  ThreadPool one(1);
  std::vector<float> to(input.values.size());
  std::vector<double> gains;
  for (std::int64_t repeat = -1; repeat < repeats; ++repeat) {
    const double alone = copy_seconds(one, input.values, to);
    const double gain = alone / copy_seconds(several, input.values, to);
    if (repeat >= 0) gains.push_back(gain);
  }
  const auto middle = gains.begin() + static_cast<std::ptrdiff_t>(gains.size() / 2);
  std::nth_element(gains.begin(), middle, gains.end());
  return *middle;
}

void compare_threads_on(const Input& input, const Arguments& arguments) {
  constexpr double bar = 1.7;
  const auto pool = std::make_shared<ThreadPool>(static_cast<int>(arguments.threads));
  const auto repeats = static_cast<int>(arguments.repeats);
  for (const Row& row : rows(arguments, input)) {
    const auto one = make_codec(read_stages(row.codec));
    const auto several = make_codec(read_stages(row.codec), pool);
    const std::array<Codec*, 2> both{one.get(), several.get()};
    const auto m = measure(both, input.layout, input.values, repeats);
    fmt::print("{:<9} | {:<43} | {:>7.2f} | {:>7.2f} | {:<20} | {:>7.2f} | {:>7.2f} | {:<20} | {:>5.2f}x\n", input.name,
               row.codec, m[0].encode_gbps, m[1].encode_gbps, gain(m[1].encode_gbps / m[0].encode_gbps, bar),
               m[0].decode_gbps, m[1].decode_gbps, gain(m[1].decode_gbps / m[0].decode_gbps, bar),
               copy_gain(input, *pool, arguments.repeats));
    std::fflush(stdout);
  }
}

void compare_threads(const Arguments& arguments) {
  fmt::print("\n1 and {} threads in turns, GB/s, encode and then decode-add; memcpy by as many threads\n",
             arguments.threads);
  fmt::print("{:<9} | {:<43} | {:>7} | {:>7} | {:<20} | {:>7} | {:>7} | {:<20} | {:>6}\n", "input", "codec", "1", "N",
             "encode, N over 1", "1", "N", "decode-add, N over 1", "memcpy");
  for (const std::string& sample : arguments.samples) compare_threads_on(make_input(arguments, sample), arguments);
  for (const std::string& path : arguments.files) compare_threads_on(read_input(path), arguments);
}

void run(const Arguments& arguments) {
  fmt::print("commit {}, {}, {}, 1 thread, medians of {} repeats\n", SOTTO_COMMIT, processor(), SOTTO_COMPILER,
             arguments.repeats);
  fmt::print("{:<9} | {:>9} | {:<43} | {:<28} | {:<28} | {:>8} | {:>10} | {:>6}\n", "input", "floats", "codec",
             "encode GB/s, of memcpy", "decode-add GB/s, of memcpy", "bytes/el", "rel. error", "memcpy");
  for (const std::string& sample : arguments.samples) run_on(make_input(arguments, sample), arguments);
  for (const std::string& path : arguments.files) run_on(read_input(path), arguments);
  if (arguments.threads > 1) compare_threads(arguments);
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  fmt::print(stderr, "this is a debug build, whose speed says nothing: configure with -DCMAKE_BUILD_TYPE=Release\n");
  return 2;
#endif
  try {
    run(parse(argc, argv));
  } catch (const Error& error) {
    fmt::print(stderr, "bench_codecs: {}\n", error.what());
    return 2;
  }
}
