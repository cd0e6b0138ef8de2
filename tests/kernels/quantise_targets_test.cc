// Compares quantisers with element.h, bit by bit, on every SIMD target.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/element_bytes.h"
#include "sotto/kernels/level_table.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/run.h"
#include "tests/kernels/stretches.h"

namespace sotto::kernels {
namespace {

TEST(Targets, Casts) {
  check_encode<std::uint16_t>([](auto values, auto out) { to_f16(values, 0.5F, 4, out); },
                              [](float v, std::size_t) { return element::to_f16(v * 0.5F * 4.0F); });
  check_encode<std::uint16_t>([](auto values, auto out) { to_bf16(values, 0.3F, out); },
                              [](float v, std::size_t) { return element::to_bf16(v * 0.3F); });
  check_encode<float>([](auto values, auto out) { to_f32(values, 0.3F, out); },
                      [](float v, std::size_t) { return v * 0.3F; });
}

TEST(Targets, CastsBack) {
  for (const float unit : {0.25F, 0x1p113F}) {
    check_add<std::uint16_t>([&](auto in, float scale, auto out) { add_f16(in, unit, scale, out); },
                             [&](std::uint16_t half, std::size_t) { return element::from_f16(half, unit); });
  }
  check_add<std::uint16_t>([](auto in, float scale, auto out) { add_bf16(in, scale, out); },
                           [](std::uint16_t half, std::size_t) { return element::from_bf16(half); });
  check_add<float>([](auto in, float scale, auto out) { add_f32(in, scale, out); },
                   [](float v, std::size_t) { return v; });
}

// Norms of many sizes.
float norm_of(std::size_t i) {
  constexpr std::array norms{2.5F, 0.0F, 1e-44F, 1e-30F, 0.7F, 1e30F, largest, 1e-19F};
  return norms[(first + i) / block % norms.size()];
}

// Units are powers of two of many sizes.
float unit_of(std::size_t i) {
  constexpr std::array units{1.0F, 0x1p-149F, 0x1p-70F, 0x1p-20F, 0x1p99F, 0x1p100F, 0x1p126F};
  return units[(first + i) / block % units.size()];
}

class SomeNorms {
 public:
  explicit SomeNorms(std::size_t count, float (*norm)(std::size_t) = norm_of)
      : bytes_(sizeof(float) * ((first + count) / block + 1) + 1) {
    for (std::size_t i = 0; i < count; ++i) store(bytes_.data() + 1, (first + i) / block, norm(i));
  }
  Norms get() const { return {std::span(bytes_).subspan(1), block, first}; }

 private:
  std::vector<std::byte> bytes_;
};

// Levels are packed to the same bytes as pack_bits packs their symbols.
TEST(Targets, PackedLevels) {
  for (unsigned width = 2; width <= 8; ++width) {
    const int top = (1 << (width - 1)) - 1;
    everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
      Philox random(seed, Purpose::test);
      Stretch<std::byte> levels(count, shift);
      std::vector<std::uint16_t> symbols(count);
      for (std::size_t i = 0; i < count; ++i) {
        const int level = static_cast<int>(random.below(2 * static_cast<std::uint32_t>(top) + 1)) - top;
        levels.span()[i] = static_cast<std::byte>(level);
        symbols[i] = static_cast<std::uint16_t>(level < 0 ? -2 * level - 1 : 2 * level);
      }
      std::vector<std::byte> expected(packed_bytes(count, width));
      pack_bits(symbols, width, expected);
      Stretch<std::byte> out(expected.size(), 3 - shift);
      pack_levels(levels.span(), width, out.span());
      expect_same_bits<std::byte>(out.span(), expected);
      EXPECT_TRUE(out.guarded());
    });
  }
}

TEST(Targets, Int8) {
  const ElementStream stream{77, 88};
  constexpr std::uint32_t offset = 0xFFFFFF00U;
  check_encode<std::int8_t>(
      [](auto values, auto out) { nearest_levels(values, SomeNorms(values.size()).get(), int8_top, out); },
      [](float v, std::size_t i) { return element::nearest_level(v, element::Grid(norm_of(i), 127)); }, norm_of);
  check_encode<std::int8_t>(
      [&](auto values, auto out) {
        stochastic_levels(values, SomeNorms(values.size()).get(), int8_top, {stream, offset, {}}, out);
      },
      [&](float v, std::size_t i) {
        return element::random_level(v, element::Grid(norm_of(i), 127),
                                     stream.quick(offset + static_cast<std::uint32_t>(i)));
      });
  check_add<std::int8_t>([](auto in, float scale, auto out) { add_int8(in, SomeNorms(in.size()).get(), scale, out); },
                         [](std::int8_t q, std::size_t i) { return element::from_level(q, norm_of(i), 1.0F / 127); });
}

TEST(Targets, Nf4) {
  check_encode<std::uint16_t>(
      [](auto values, auto out) {
        std::vector<std::uint16_t> symbols(values.size());
        nearest_nf4(values, SomeNorms(values.size()).get(), symbols);
        std::ranges::copy(std::as_bytes(std::span(symbols)), out.begin());
      },
      [](float v, std::size_t i) {
        const float y = element::Grid(norm_of(i), 1).at(v);
        return std::ranges::count_if(nf4_middles, [y](float middle) { return y > middle; });
      },
      norm_of);
}

TEST(Targets, Shares) {
  const ElementStream stream{77, 88};
  constexpr std::uint32_t offset = 0xFFFFFF00U;
  std::vector<std::uint32_t> listed(lengths.back());
  for (std::size_t i = 0; i < listed.size(); ++i) listed[i] = static_cast<std::uint32_t>(3 * i + 1);
  for (std::size_t bits = 1; bits <= 8; ++bits) {
    const std::size_t count = std::size_t{1} << bits;
    std::vector<float> shares(count + 1, 1);
    for (std::size_t j = 0; j + 2 < count; ++j) {
      shares[j] = static_cast<float>(j * j) / static_cast<float>(count * count);
    }
    shares.front() = 0;
    shares[count] = 2;  // two levels are 1, where there are more than two
    for (const bool list : {false, true}) {
      const auto draws = [&](std::size_t n) {
        return Draws{stream, offset, list ? std::span(listed).first(n) : std::span<const std::uint32_t>()};
      };
      check_encode<std::uint16_t>(
          [&](auto values, auto out) {
            std::vector<std::uint16_t> symbols(values.size());
            random_shares(values, SomeNorms(values.size()).get(), shares, draws(values.size()), symbols);
            std::ranges::copy(std::as_bytes(std::span(symbols)), out.begin());
          },
          [&](float v, std::size_t i) {
            return element::random_share(element::Grid(norm_of(i), 1).at(v), shares.data(), count,
                                         stream.quick(draws(lengths.back()).number(i)));
          },
          norm_of);
    }
  }
  check_add<std::uint16_t>(
      [](auto in, float scale, auto out) {
        std::vector<std::uint16_t> symbols(out.size());
        for (std::size_t i = 0; i < symbols.size(); ++i) symbols[i] = load<std::uint16_t>(in.data(), i) % 16;
        add_from_table(symbols, SomeNorms(out.size()).get(), nf4_levels, scale, out);
      },
      [](std::uint16_t symbol, std::size_t i) { return norm_of(i) * nf4_levels[symbol % 16]; });
}

// The two ends of each block, of many sizes.
using Ends = std::array<float, 2>;
Ends ends_of(std::size_t i) {
  constexpr std::array<Ends, 8> ends{{{-2.5F, 1.0F},
                                      {0.0F, 0.0F},
                                      {-1e-44F, 3e-44F},
                                      {1e-30F, 2e-30F},
                                      {-largest, largest},
                                      {0.7F, 0.70001F},
                                      {-1e30F, -1e-30F},
                                      {-1e-19F, 0}}};
  return ends[(first + i) / block % ends.size()];
}

TEST(Targets, UInt8) {
  const ElementStream stream{77, 88};
  constexpr std::uint32_t offset = 0xFFFFFF00U;
  std::vector<std::byte> bytes(2 * sizeof(float) * (lengths.back() / block + 2) + 1);
  for (std::size_t i = 0; i < lengths.back(); ++i) {
    for (std::size_t end = 0; end < 2; ++end) store(bytes.data() + 1, (first + i) / block * 2 + end, ends_of(i)[end]);
  }
  const Norms ends{std::span(bytes).subspan(1), block, first};
  const auto interval = [](std::size_t i) { return element::Interval(ends_of(i)[0], ends_of(i)[1]); };
  const auto inside = [](float v, std::size_t i) {
    return std::fmin(std::fmax(v, ends_of(i)[0]), ends_of(i)[1]) + 0.0F;
  };
  const auto all_inside = [&](std::span<const float> values) {
    std::vector<float> all(values.begin(), values.end());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = inside(all[i], i);
    return all;
  };
  check_encode<std::uint8_t>([&](auto values, auto out) { to_uint8(all_inside(values), ends, out); },
                             [&](float v, std::size_t i) { return element::nearest_level(inside(v, i), interval(i)); });
  check_encode<std::uint8_t>(
      [&](auto values, auto out) {
        to_uint8_stochastic(all_inside(values), ends, {stream, offset, {}}, out);
      },
      [&](float v, std::size_t i) {
        return element::random_level(inside(v, i), interval(i), stream.quick(offset + static_cast<std::uint32_t>(i)));
      });
  check_add<std::uint8_t>([&](auto in, float scale, auto out) { add_uint8(in, ends, scale, out); },
                          [&](std::uint8_t level, std::size_t i) { return interval(i).from(level); });
}

template <class Format, class Encode, class Add>
void check_float8(Encode encode, Add add) {
  const auto units = [](std::size_t count) { return SomeNorms(count, unit_of); };
  check_encode<std::uint8_t>(
      [&](auto values, auto out) { encode(values, units(values.size()).get(), out); },
      [](float v, std::size_t i) { return element::to_float8<Format>(element::Divider(unit_of(i)).divide(v)); });
  check_add<std::uint8_t>(
      [&](auto in, float scale, auto out) { add(in, units(in.size()).get(), scale, out); },
      [](std::uint8_t byte, std::size_t i) { return element::from_float8<Format>(byte, unit_of(i)); });
}

TEST(Targets, Float8) {
  check_float8<element::E4M3>(to_e4m3, add_e4m3);
  check_float8<element::E5M2>(to_e5m2, add_e5m2);
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t) {
    for (const std::uint8_t sign : {0, 0x80}) {
      Stretch<std::byte> bytes(count, shift, static_cast<std::byte>(sign | 0x7B));
      EXPECT_TRUE(all_numbers_e4m3(bytes.span()));
      EXPECT_TRUE(all_numbers_e5m2(bytes.span()));
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        if (count == 0) break;
        Stretch<std::byte> bad = bytes;
        bad.span()[at] = static_cast<std::byte>(sign | 0x7C);
        EXPECT_FALSE(all_numbers_e5m2(bad.span()));
        EXPECT_TRUE(all_numbers_e4m3(bad.span()));
        bad.span()[at] = static_cast<std::byte>(sign | 0x7F);
        EXPECT_FALSE(all_numbers_e4m3(bad.span()));
      }
    }
  });
}

float power_unit(std::size_t i) {
  constexpr std::array units{1.0F, 0x1p-126F, 0x1p-70F, 0x1p-20F, 0x1p99F, 0x1p126F, 0x1p127F};
  return units[(first + i) / block % units.size()];
}

TEST(Targets, PowersOfTwo) {
  const ElementStream stream{77, 88};
  constexpr std::uint32_t offset = 0xFFFFFF00U;
  std::vector<std::uint32_t> listed(lengths.back());
  for (std::size_t i = 0; i < listed.size(); ++i) listed[i] = static_cast<std::uint32_t>(i * i * 7919);
  for (const bool list : {false, true}) {
    const auto draws = [&](std::size_t count) {
      return Draws{stream, offset, list ? std::span(listed).first(count) : std::span<const std::uint32_t>()};
    };
    check_encode<std::uint8_t>(
        [&](auto values, auto out) {
          to_powers(values, SomeNorms(values.size(), power_unit).get(), draws(values.size()), out);
        },
        [&](float v, std::size_t i) {
          const float share = element::power_share(power_unit(i));
          return element::to_power(v * share, stream.quick(draws(listed.size()).number(i)));
        },
        [](std::size_t i) { return std::nextafter(2 * power_unit(i), 0.0F); });
  }
  check_add<std::uint8_t>(
      [&](auto in, float scale, auto out) { add_powers(in, SomeNorms(in.size(), power_unit).get(), scale, out); },
      [&](std::uint8_t byte, std::size_t i) { return element::from_power(byte, power_unit(i)); });
}

// Symbols 0, 1, 2, ... stand for the levels 0, -1, 1, -2, 2, ...
std::uint16_t symbol_of(std::int32_t level) {
  return static_cast<std::uint16_t>(level < 0 ? -2 * level - 1 : 2 * level);
}

TEST(Targets, Levels) {
  const ElementStream stream{77, 88};
  std::vector<std::uint32_t> listed(lengths.back());
  for (std::size_t i = 0; i < listed.size(); ++i) listed[i] = static_cast<std::uint32_t>(i * i * 7919);
  for (const unsigned top : {1U, 7U, 255U}) {
    const auto bytes_of = [](auto kernel) {
      return [kernel](std::span<const float> values, std::span<std::byte> out) {
        std::vector<std::uint16_t> symbols(values.size());
        kernel(values, SomeNorms(values.size()).get(), std::span(symbols));
        for (std::size_t i = 0; i < symbols.size(); ++i) store(out.data(), i, symbols[i]);
      };
    };
    check_encode<std::uint16_t>(
        bytes_of([&](auto values, auto norms, auto symbols) { nearest_levels(values, norms, top, symbols); }),
        [&](float v, std::size_t i) { return symbol_of(element::nearest_level(v, element::Grid(norm_of(i), top))); },
        norm_of);
    const auto drawn = [&](float v, std::size_t i, std::uint32_t number) {
      return symbol_of(element::random_level(v, element::Grid(norm_of(i), top), stream.quick(9 + number)));
    };
    check_encode<std::uint16_t>(bytes_of([&](auto values, auto norms, auto symbols) {
                                  stochastic_levels(values, norms, top, {stream, 9, {}}, symbols);
                                }),
                                [&](float v, std::size_t i) { return drawn(v, i, static_cast<std::uint32_t>(i)); });
    check_encode<std::uint16_t>(
        bytes_of([&](auto values, auto norms, auto symbols) {
          stochastic_levels(values, norms, top, {stream, 9, std::span(listed).first(values.size())}, symbols);
        }),
        [&](float v, std::size_t i) { return drawn(v, i, listed[i]); });
    check_add<std::uint16_t>(
        [&](auto in, float scale, auto out) {
          std::vector<std::uint16_t> symbols(out.size());
          for (std::size_t i = 0; i < symbols.size(); ++i) {
            symbols[i] = static_cast<std::uint16_t>(load<std::uint16_t>(in.data(), i) % (2 * top + 2));
          }
          add_levels(symbols, SomeNorms(symbols.size()).get(), top, scale, out);
        },
        [&](std::uint16_t bits, std::size_t i) {
          const int symbol = bits % (2 * static_cast<int>(top) + 2);
          const int level = symbol % 2 == 0 ? symbol / 2 : -(symbol + 1) / 2;
          return element::from_level(std::max(level, -static_cast<int>(top)), norm_of(i),
                                     1.0F / static_cast<float>(top));
        });
  }
}

}  // namespace
}  // namespace sotto::kernels
