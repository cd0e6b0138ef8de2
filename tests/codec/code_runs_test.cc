// Some quantisers have symbols of several widths and kinds; they tell codes the width and kind of each run.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "sotto/codec/measure.h"
#include "sotto/codec/quantise/minmax_sketch.h"
#include "sotto/codec/quantise/qsgd.h"
#include "sotto/codec/quantise/quantile.h"
#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

constexpr std::size_t run_elements = 400'000;

Adaptive adaptive(double error) {
  AdaptiveOptions options;
  options.error = error;
  return Adaptive(options);
}

MinMaxSketch sketch(std::int64_t bins, std::int64_t groups) {
  QuantileOptions quantile;
  quantile.bins = bins;
  MinMaxSketchOptions options;
  options.groups = groups;
  MinMaxSketch stage(options);
  stage.use_bins(std::make_unique<Quantile>(quantile));
  return stage;
}

struct Sizes {
  double side = 0, packed = 0, least = 0;  // bytes; `least` by the entropy of the symbols of each kind and width
  int tables = 0;
};
template <class Stage>  // a quantiser of whole units
Sizes sizes_of(Stage stage, std::span<const float> values) {
  std::vector<std::byte> side(stage.side_bytes(values.size()));
  std::vector<std::byte> packed(stage.max_packed_bytes(values.size()));
  EXPECT_TRUE(stage.encode({values, {ElementStream{}, 0, {}}, {}}, side, packed));
  packed.resize(stage.packed_size(side, values.size()));
  std::vector<SymbolRun> runs;
  stage.list_runs(side, values.size(), runs);
  EXPECT_LE(runs.size(), stage.run_limits(values.size()).runs);

  std::map<std::pair<unsigned, unsigned>, std::map<unsigned, double>> counts;
  std::size_t at = 0;
  for (const SymbolRun& run : runs) {
    std::vector<std::uint16_t> symbols(run.count);
    kernels::unpack_bits(std::span(packed).subspan(at, run.bytes()), run.width, symbols);
    at += run.bytes();
    for (const unsigned symbol : symbols) ++counts[{run.kind, run.width}][symbol];
  }
  EXPECT_EQ(at, packed.size());
  Sizes sizes{.side = static_cast<double>(side.size()), .packed = static_cast<double>(packed.size())};
  for (const auto& [kind, its] : counts) {
    double total = 0;
    for (const auto& [symbol, count] : its) total += count;
    EXPECT_LE(total, static_cast<double>(stage.run_limits(values.size()).symbols));
    for (const auto& [symbol, count] : its) sizes.least -= count * std::log2(count / total) / 8;
    ++sizes.tables;
  }
  return sizes;
}

TEST(CodesOfRuns, ComeNearTheEntropyOfTheSymbols) {
  for (const char* name : {"gaussian", "student", "sparse"}) {
    Input input{name, {{{"w", 0, {run_elements}}}, run_elements}, std::vector<float>(run_elements)};
    fill_sample("test", name, 3, input.values);
    for (const auto& [stages, find_sizes] :
         std::vector<std::pair<std::string, std::function<Sizes(std::span<const float>)>>>{
             {"adaptive(error=0.3)", [](auto values) { return sizes_of(adaptive(0.3), values); }},
             {"adaptive(error=0.02)", [](auto values) { return sizes_of(adaptive(0.02), values); }},
             {"quantile(bins=256) | minmax_sketch(groups=8)",
              [](auto values) { return sizes_of(sketch(256, 8), values); }},
             {"quantile(bins=128) | minmax_sketch(groups=8)",
              [](auto values) { return sizes_of(sketch(128, 8), values); }},
             {"quantile(bins=256) | minmax_sketch(groups=2)",
              [](auto values) { return sizes_of(sketch(256, 2), values); }},
             {"quantile(bins=100) | minmax_sketch(groups=3)",
              [](auto values) { return sizes_of(sketch(100, 3), values); }}}) {
      const Sizes sizes = find_sizes(input.values);
      for (const char* code : {"rans", "rans(segment)", "huffman", "elias"}) {
        const std::string expression = stages + " | " + code;
        SCOPED_TRACE(std::string(name) + ": " + expression);
        const auto message = encode(*make_codec(read_stages(expression)), input);
        const auto bytes = static_cast<double>(message.size());
        EXPECT_LE(bytes, 32 + sizes.side + sizes.packed);
        if (std::string(code).starts_with("rans")) {
          EXPECT_LE(bytes, 32 + sizes.side + 1.02 * sizes.least + 100 * sizes.tables);
        }
        EXPECT_EQ(decode(*make_codec(read_stages(expression)), input, message),
                  decode(*make_codec(read_stages(stages)), input, encode(*make_codec(read_stages(stages)), input)));
      }
    }
  }
}

// Codes gain much here: most sparse values are zeros, and cells keep the least level put into them, so low levels are
// frequent.
TEST(CodesOfRuns, AreWorthIt) {
  Input input{"sparse", {{{"w", 0, {run_elements}}}, run_elements}, std::vector<float>(run_elements)};
  fill_sample("test", "sparse", 3, input.values);
  for (const auto& [quantise, share] : {std::pair{"adaptive", 0.4}, {"quantile | minmax_sketch", 0.25}}) {
    const auto plain = encode(*make_codec(read_stages(quantise)), input).size();
    const auto coded = encode(*make_codec(read_stages(std::string(quantise) + " | rans")), input).size();
    EXPECT_LT(static_cast<double>(coded), share * static_cast<double>(plain)) << quantise;
  }
}

}  // namespace
}  // namespace sotto::testing
