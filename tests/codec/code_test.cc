// Codes bring symbols near their entropy, and never make them larger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/codec/code/bit_stream.h"
#include "sotto/codec/code/huffman.h"
#include "sotto/codec/code/rans.h"
#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

double entropy(std::span<const std::uint32_t> counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  double bits = 0;
  for (const std::uint32_t count : counts) bits -= count > 0 ? count * std::log2(count / total) : 0;
  return bits / total;
}

Input sample(const std::string& name, std::int64_t elements) {
  Input input{name, {{{"w", 0, {elements}}}, static_cast<std::size_t>(elements)}, {}};
  input.values.resize(input.layout.size());
  fill_sample("test", name, 3, input.values);
  return input;
}

struct Size {
  double side = 0, plain = 0;  // bytes of a message without a code; `side` of the part that no code sees
  double entropy = 0;          // bits a symbol
};
Size uncoded(const std::string& quantise, unsigned width, const Input& input) {
  const auto message = encode(*make_codec(read_stages(quantise)), input);
  const std::size_t count = input.values.size();
  std::vector<std::uint16_t> symbols(count);
  const std::size_t packed = kernels::packed_bytes(count, width);
  kernels::unpack_bits(std::span(message).last(packed), width, symbols);
  std::vector<std::uint32_t> counts(std::size_t{1} << width);
  for (const std::uint16_t symbol : symbols) ++counts[symbol];
  return {static_cast<double>(message.size() - packed), static_cast<double>(message.size()), entropy(counts)};
}

// Quantisers whose symbols have several widths and kinds are in code_runs_test.cc.
const std::vector<std::pair<std::string, unsigned>> quantisers{{"qsgd(bits=4)", 5},
                                                               {"qsgd(bits=8, norm=l2)", 9},
                                                               {"terngrad", 2},
                                                               {"terngrad(clip=0)", 2},
                                                               {"int8", 8},
                                                               {"sign", 1},
                                                               {"natural", 8},
                                                               {"fp8", 8},
                                                               {"fp8(format=e5m2)", 8},
                                                               {"quantile", 8},
                                                               {"quantile(bins=17)", 5},
                                                               {"clusters", 6},
                                                               {"int4", 4}};

TEST(Codes, ComeNearTheEntropyOfTheSymbols) {
  for (const char* name : {"gaussian", "student", "sparse"}) {
    const Input input = sample(name, 400'000);
    for (const auto& [quantise, width] : quantisers) {
      const Size size = uncoded(quantise, width, input);
      const double least = size.side + size.entropy * 400'000 / 8;
      for (const char* code : {"rans", "rans(segment)", "rans(adaptive)", "huffman", "elias", "elias(gaps=false)",
                               "lz4", "blosc", "zstd"}) {
        SCOPED_TRACE(std::string(name) + ": " + quantise + " | " + code);
        const auto codec = make_codec(read_stages(quantise + " | " + code));
        const auto message = encode(*codec, input);
        const auto bytes = static_cast<double>(message.size());
        EXPECT_LE(bytes, size.plain);
        // Each chunk adds its length and its first states. An adaptive model codes its first 256 symbols as equally
        // likely; after that it needs about four bytes for each possible symbol until the counts outweigh their first
        // values.
        constexpr double chunks = 4;
        const double learned = std::string(code) == "rans(adaptive)" ? 32.0 * width + 4 * (1U << width) : 0;
        if (std::string(code).starts_with("rans")) {
          EXPECT_LE(bytes, 1.02 * least + chunks * (16 + learned));
        }
        // Gallager, 1978: no Huffman code takes more than the entropy, the largest probability and 0.086 bits.
        if (std::string(code) == "huffman") {
          EXPECT_LE(bytes, least + 400'000 / 8.0 * 1.086 + 300);
        }
        EXPECT_EQ(decode(*make_codec(read_stages(codec->traits().text)), input, message),
                  decode(*make_codec(read_stages(quantise)), input, encode(*make_codec(read_stages(quantise)), input)));
      }
    }
  }
}

// Sign and exponent of floats take less than 9 bits once coded; the bits after them go as they are.
TEST(Codes, CodeTheHighestBitsOfWideSymbols) {
  const Input input = sample("gaussian", 300'000);
  for (const auto& [quantise, share] : {std::pair{"f32", 0.86}, {"f16", 0.86}, {"bf16", 0.71}}) {
    const auto plain = encode(*make_codec(read_stages(quantise)), input).size();
    const auto coded = encode(*make_codec(read_stages(std::string(quantise) + " | rans")), input).size();
    EXPECT_LT(static_cast<double>(coded), share * static_cast<double>(plain)) << quantise;
  }
}

// Lengths around the borders of chunks, and around the longest input that is coded with few states, in runs of several
// segments.
TEST(Codes, GoThereAndBackAtAllLengths) {
  constexpr std::int64_t chunk = 131072;
  for (const std::int64_t length : {1L, 7L, 16383L, 16384L, chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 5}) {
    const auto n = static_cast<std::size_t>(length);
    Input input{
        "several", {{{"a", 0, {length}}, {"b", n, {100'003}}, {"c", n + 100'003, {length}}}, 2 * n + 100'003}, {}};
    input.values.resize(input.layout.size());
    fill_sample("test", "student", 5, input.values);
    for (const char* quantise : {"qsgd(bits=3, norm=l2)", "bf16"}) {
      const auto expected =
          decode(*make_codec(read_stages(quantise)), input, encode(*make_codec(read_stages(quantise)), input));
      for (const char* code : {"rans", "rans(segment)", "rans(adaptive)", "huffman", "elias"}) {
        const std::string expression = std::string(quantise) + " | " + code;
        const auto message = encode(*make_codec(read_stages(expression)), input);
        EXPECT_EQ(decode(*make_codec(read_stages(expression)), input, message), expected)
            << expression << ", " << length;
      }
    }
  }
}

// Each of the many segments has its own model. The cost of one must not grow with the number of segments before it.
TEST(Codes, OfVeryManySegmentsGoThereAndBack) {
  Layout layout;
  for (int i = 0; i < 20'000; ++i) layout.append("w" + std::to_string(i), {40 + i % 90});
  Input input{"many", layout, std::vector<float>(layout.size())};
  for (std::size_t i = 0; i < input.values.size(); i += 37) input.values[i] = static_cast<float>(i % 5) - 2;
  layout.clear_padding(input.values);
  const auto plain = encode(*make_codec(read_stages("int4")), input);
  const auto expected = decode(*make_codec(read_stages("int4")), input, plain);
  for (const char* code : {"rans(segment)", "huffman(segment)"}) {
    const std::string expression = std::string("int4 | ") + code;
    const auto message = encode(*make_codec(read_stages(expression)), input);
    EXPECT_LT(message.size(), plain.size()) << expression;
    EXPECT_EQ(decode(*make_codec(read_stages(expression)), input, message), expected) << expression;
  }
}

TEST(Codes, OfOneSymbolAloneTakeHardlyAnything) {
  Input input = sample("gaussian", 200'000);
  std::ranges::fill(input.values, 0.0F);
  for (const char* code : {"rans", "rans(segment)", "rans(adaptive)", "elias", "lz4", "blosc"}) {
    for (const auto& [quantise, width] : quantisers) {
      if (quantise == "sign") continue;  // a sign of 0 means a positive value
      const std::string expression = quantise + " | " + code;
      const Size size = uncoded(quantise, width, input);
      const auto message = encode(*make_codec(read_stages(expression)), input);
      EXPECT_LT(static_cast<double>(message.size()), 0.02 * size.plain + (std::string(code) == "lz4" ? 0 : size.side))
          << expression;
      EXPECT_EQ(decode(*make_codec(read_stages(expression)), input, message), input.values) << expression;
    }
  }
}

TEST(Frequencies, AddUpAndComeBack) {
  Philox random(6, Purpose::test);
  for (const std::size_t alphabet :
       {std::size_t{1}, std::size_t{2}, std::size_t{31}, std::size_t{256}, std::size_t{512}}) {
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<std::uint32_t> counts(alphabet);
      for (std::uint32_t& count : counts) count = random.below(3) == 0 ? 0 : random.below(1U << random.below(24));
      counts[random.below(static_cast<std::uint32_t>(alphabet))] = 1 + random.below(1U << random.below(31));
      const unsigned precision = precision_for(counts);
      std::vector<std::uint32_t> frequencies(alphabet), back(alphabet);
      share_frequencies(counts, precision, frequencies);
      EXPECT_EQ(std::accumulate(frequencies.begin(), frequencies.end(), 0U), 1U << precision);
      for (std::size_t s = 0; s < alphabet; ++s) EXPECT_EQ(frequencies[s] > 0, counts[s] > 0);
      std::vector<std::byte> room(4 * alphabet + 8);
      const auto size = write_frequencies(frequencies, precision, room);
      ASSERT_TRUE(size.has_value());
      const auto table = read_frequencies(room, back);
      EXPECT_EQ(table.precision, precision);
      EXPECT_EQ(table.bytes, *size);
      EXPECT_EQ(back, frequencies);
      EXPECT_FALSE(write_frequencies(frequencies, precision, std::span(room).first(*size - 1)).has_value());
      EXPECT_THROW(read_frequencies(std::span(room).first(*size - 1), back), WireError);
    }
  }
}

// Compares costs with the costs of Huffman's own procedure, which has no limit on lengths, where its lengths do not
// exceed our limit.
TEST(CodeLengths, AreTheBestOfTheirLength) {
  Philox random(7, Purpose::test);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::uint32_t> counts(1 + random.below(511));
    for (std::uint32_t& count : counts) count = random.below(1U << random.below(trial % 2 == 0 ? 8 : 30));
    counts[0] += 1;
    counts.resize((counts.size() + 1) / 2 * 2);
    std::vector<std::uint8_t> lengths(counts.size()), longer(counts.size());
    code_lengths(counts, 12, lengths);
    code_lengths(counts, 15, longer);
    double kraft = 0, cost = 0, cost_of_longer = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      EXPECT_LE(lengths[s], 12);
      kraft += lengths[s] > 0 ? std::pow(2.0, -lengths[s]) : 0;
      cost += static_cast<double>(counts[s]) * lengths[s];
      cost_of_longer += static_cast<double>(counts[s]) * longer[s];
      if (counts[s] > 0) {
        EXPECT_GT(lengths[s], 0);
      }
    }
    EXPECT_EQ(kraft, 1);
    EXPECT_LE(cost_of_longer, cost);
    std::vector<double> heap;
    for (const std::uint32_t count : counts) {
      if (count > 0) heap.push_back(count);
    }
    double unlimited = heap.size() == 1 ? heap[0] : 0;
    std::make_heap(heap.begin(), heap.end(), std::greater<>());
    while (heap.size() > 1) {
      double sum = 0;
      for (int i = 0; i < 2; ++i) {
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        sum += heap.back();
        heap.pop_back();
      }
      unlimited += sum;
      heap.push_back(sum);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    EXPECT_GE(cost, unlimited);
    if (*std::ranges::max_element(longer) <= 12) {
      EXPECT_EQ(cost, unlimited);
    }
  }
}

TEST(BitStream, GoesThereAndBack) {
  Philox random(8, Purpose::test);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<std::pair<std::uint64_t, unsigned>> numbers(random.below(60));
    std::vector<std::byte> room(480);
    BitWriter writer(room);
    for (auto& [value, count] : numbers) {
      count = random.below(57);
      value = (std::uint64_t{random.next()} << 32 | random.next()) & ((std::uint64_t{1} << count) - 1);
      writer.put(value, count);
      writer.put_gamma(1 + static_cast<std::uint32_t>(value & 0x1FFFFFFU) / 3);
    }
    const auto size = writer.size();
    if (!size) continue;
    BitReader reader{std::span(room).first(*size)};
    for (const auto& [value, count] : numbers) {
      EXPECT_EQ(reader.get(count), value);
      EXPECT_EQ(reader.get_gamma(), 1 + static_cast<std::uint32_t>(value & 0x1FFFFFFU) / 3);
    }
    EXPECT_EQ(reader.finish(), *size);
  }
}

}  // namespace
}  // namespace sotto::testing
