// Speed of codecs on one thread: verified first, then timed. Medians of --repeats runs, memcpy of the same input beside
// them.
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/sample.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace {

using namespace sotto;

struct Arguments {
  std::int64_t elements = 25'000'000;
  std::int64_t repeats = 5;
  std::string sample = "gaussian";
  std::vector<std::string> sentences;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      arguments.sentences.emplace_back(name);
      continue;
    }
    if (i + 1 == argc) throw ConfigError(std::string(name) + " wants a value");
    const std::string_view value = argv[++i];
    if (name == "--elements") {
      arguments.elements = parse_int(name, value, Bounds{1, 1e9});
    } else if (name == "--repeats") {
      arguments.repeats = parse_int(name, value, Bounds{1, 1000});
    } else if (name == "--sample") {
      arguments.sample = value;
    } else {
      throw ConfigError(std::string(name) +
                        " is unknown; there are --elements N, --repeats N, --sample NAME and sentences");
    }
  }
  if (arguments.sentences.empty()) {
    arguments.sentences = {"f32",
                           "f16",
                           "bf16",
                           "int8",
                           "int8(stochastic=true)",
                           "qsgd(bits=4)",
                           "qsgd(bits=4, norm=l2)",
                           "qsgd(bits=8)",
                           "sign",
                           "sign(block=128)",
                           "topk(0.01)",
                           "topk(0.01) | f16",
                           "topk(0.1)",
                           "threshold(0.1, relative)",
                           "qsgd(bits=4) | zstd"};
  }
  return arguments;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// A damaged or biased codec must not be timed: the error has to be within what the contract says.
void verify(Codec& codec, const Layout& layout, std::span<const float> input) {
  const Contract contract = codec.contract(layout);
  const double error = measure(codec, layout, input, 1).relative_error;
  const double square = error * error;
  const bool good = contract.kind == Contract::Kind::exact         ? error == 0
                    : contract.kind == Contract::Kind::unbiased    ? square <= 1.1 * contract.omega
                    : contract.kind == Contract::Kind::contraction ? square <= 1 - contract.delta + 1e-6
                                                                   : std::isfinite(square);
  if (!good)
    throw NumericError(fmt::format("{}: a relative error of {}, which its contract forbids", codec.sentence(), error));
}

void run(const Arguments& arguments) {
  const auto elements = static_cast<std::size_t>(arguments.elements);
  std::vector<float> input(elements);
  fill_sample("--sample", arguments.sample, 1, input);
  const Layout layout({{"input", 0, {arguments.elements}}}, elements);

  fmt::print("commit {}, {}, {}, 1 thread, {} repeats, sample {}\n", SOTTO_COMMIT, processor(), SOTTO_COMPILER,
             arguments.repeats, arguments.sample);
  fmt::print("{:<34} | {:>10} | {:>11} | {:>11} | {:>10} | {:>10} | {:>11}\n", "codec", "floats", "encode GB/s",
             "decode GB/s", "bytes/el.", "rel. error", "memcpy GB/s");
  for (const std::string& sentence : arguments.sentences) {
    const auto codec = make_codec("codec", sentence);
    verify(*codec, layout, input);
    const Measurement m = measure(*codec, layout, input, static_cast<int>(arguments.repeats));
    fmt::print("{:<34} | {:>10} | {:>11.2f} | {:>11.2f} | {:>10.4f} | {:>10.2e} | {:>11.2f}\n", sentence, elements,
               m.encode_gbps, m.decode_gbps, static_cast<double>(m.bytes) / static_cast<double>(elements),
               m.relative_error, m.memcpy_gbps);
    std::fflush(stdout);
  }
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
