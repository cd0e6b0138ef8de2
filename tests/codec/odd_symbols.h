#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "sotto/codec/stage.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/reduce.h"

namespace sotto::testing {

// Codes a run of equal symbols as a byte 1 and the symbol in two bytes, any other run as a byte 0 and the run itself.
class EqualRuns final : public Code {
 public:
  bool of_symbols() const override { return true; }
  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) override {
    std::vector<std::byte> coded;
    std::size_t at = 0;
    for (const SymbolRun& run : in.runs) {
      const auto bytes = in.bytes.subspan(at, run.bytes());
      std::vector<std::uint16_t> symbols(run.count);
      kernels::unpack_bits(bytes, run.width, symbols);
      const bool equal = std::ranges::count(symbols, symbols[0]) == std::ssize(symbols);
      coded.push_back(std::byte{equal});
      if (equal) {
        coded.push_back(static_cast<std::byte>(symbols[0]));
        coded.push_back(static_cast<std::byte>(symbols[0] >> 8));
      } else {
        coded.insert(coded.end(), bytes.begin(), bytes.end());
      }
      at += run.bytes();
    }
    EXPECT_EQ(at, in.bytes.size());
    if (coded.size() > out.size()) return std::nullopt;
    std::ranges::copy(coded, out.begin());
    return coded.size();
  }
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) override {
    ByteReader reader(coded);
    std::size_t at = 0;
    for (const SymbolRun& run : out.runs) {
      const auto bytes = out.bytes.subspan(at, run.bytes());
      if (reader.get<bool>("kind of run")) {
        kernels::pack_bits(std::vector(run.count, reader.get<std::uint16_t>("symbol")), run.width, bytes);
      } else {
        std::ranges::copy(reader.take(bytes.size(), "run"), bytes.begin());
      }
      at += run.bytes();
    }
    reader.finish("runs");
  }
};

// Sends the upper bytes of floats, as many as all values of a piece need to be exact. The side information says how
// many.
class Trimmed final : public Quantise, public WholeUnits {
 public:
  std::size_t side_bytes(std::size_t values) const override { return values > 0 ? 4 : 0; }
  std::size_t max_packed_bytes(std::size_t values) const override { return 4 * values; }
  std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const override {
    const auto bytes = kernels::load<std::uint32_t>(side.data(), 0);
    if (bytes > 5) throw WireError("trimmed: too many bytes a value");
    return bytes * values;
  }
  void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const override {
    runs.push_back({.count = packed_size(side, values)});
  }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override {
    if (!kernels::all_finite(values.data)) return false;
    std::uint32_t bytes = 0;
    for (const float value : values.data) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      while (bytes < 4 && bits << (8 * bytes) != 0) ++bytes;
    }
    kernels::store(side.data(), 0, bytes);
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values.data[i]);
      for (std::uint32_t b = 0; b < bytes; ++b) packed[i * bytes + b] = static_cast<std::byte>(bits >> (24 - 8 * b));
    }
    return true;
  }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override {
    const auto bytes = kernels::load<std::uint32_t>(in.side.data(), 0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint32_t bits = 0;
      for (std::uint32_t b = 0; b < bytes; ++b)
        bits |= std::to_integer<std::uint32_t>(in.packed[i * bytes + b]) << (24 - 8 * b);
      out[i] += scale * std::bit_cast<float>(bits);
    }
  }
  Contract contract(std::size_t) const override { return {.grain = Contract::Grain::segment}; }
};

// Divides by the largest magnitude that any rank has in a segment, and rounds each value to one of five levels, -2 ..
// 2. Three values make a byte, so a stretch of a multiple of three values is whole bytes.
class Thirds final : public Quantise, public AgreedNumbers {
 public:
  Packing packing() const override { return {.group = 3, .bytes = 1}; }
  std::size_t side_bytes(std::size_t values) const override { return values > 0 ? 4 : 0; }
  std::size_t agreed_count() const override { return 2; }
  void propose(std::span<const float> values, std::uint64_t, std::span<float> numbers) override {
    numbers[0] = -1;
    numbers[1] = std::bit_cast<float>(kernels::max_abs_bits(values));
  }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override {
    const float most = values.agreed[1];
    EXPECT_EQ(values.agreed.size(), 2U);
    kernels::store(side.data(), 0, most);
    std::ranges::fill(packed, std::byte{0});
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const long level = 2 + (most > 0 ? std::lround(2 * values.data[i] / most) : 0);
      const long place = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 25;
      packed[i / 3] = static_cast<std::byte>(std::to_integer<long>(packed[i / 3]) + level * place);
    }
    return true;
  }
  void check(const Quantised& in, std::size_t values) const override {
    EXPECT_EQ(in.packed.size(), packing().bytes_of(values));
  }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const int three = std::to_integer<int>(in.packed[i / 3]);
      const int level = (i % 3 == 0 ? three : i % 3 == 1 ? three / 5 : three / 25) % 5 - 2;
      out[i] += scale * kernels::load<float>(in.side.data(), 0) * static_cast<float>(level) / 2;
    }
  }
  Contract contract(std::size_t) const override {
    return {.kind = Contract::Kind::none, .grain = Contract::Grain::segment};
  }
};

}  // namespace sotto::testing
