// The kernels on every SIMD target against element.h and the slowest way to do the same: each bit must be equal.
#include "tests/kernels/targets.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/clusters.h"
#include "sotto/kernels/draw.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/element_bytes.h"
#include "sotto/kernels/float8.h"
#include "sotto/kernels/gaps.h"
#include "sotto/kernels/int8.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/load.h"
#include "sotto/kernels/momentum.h"
#include "sotto/kernels/norms.h"
#include "sotto/kernels/power.h"
#include "sotto/kernels/rans.h"
#include "sotto/kernels/rans_step.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/select.h"
#include "sotto/kernels/sign.h"
#include "sotto/kernels/sketch.h"
#include "sotto/kernels/trits.h"
#include "sotto/kernels/vector.h"

namespace sotto::kernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();
constexpr std::array<std::size_t, 26> lengths{0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,
                                              32, 33, 47, 63, 64, 65, 79, 127, 128, 129, 200, 257, 4099};

// Stretches that begin at any address: `shift` elements behind one that is aligned.
template <class T>
class Stretch {
 public:
  Stretch(std::size_t count, std::size_t shift, T fill = T{})
      : room_(count + shift + guard, fill), shift_(shift), fill_(fill) {}
  std::span<T> span() { return std::span(room_).subspan(shift_, room_.size() - shift_ - guard); }
  // Nothing behind the stretch was written.
  bool guarded() const {
    for (std::size_t i = room_.size() - guard; i < room_.size(); ++i) {
      if (room_[i] != fill_) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  std::vector<T> room_;
  std::size_t shift_;
  T fill_;
};

// Both zeros, denormals, very large and very small ones among normal numbers; none beyond `most`.
std::vector<float> numbers(std::size_t count, std::uint64_t seed, float most = largest) {
  constexpr std::array special{0.0F,     -0.0F,     1e-45F, -3e-42F, 1e30F,  -1e30F,
                               65504.0F, -65520.0F, 6e-8F,  1e-38F,  3.4e38F};
  std::vector<float> values(count);
  Philox random(seed, Purpose::test);
  for (float& value : values) {
    value = random.below(4) == 0 ? special[random.below(special.size())] : static_cast<float>(random.normal());
    value = std::fmin(std::fmax(value, -most), most);
  }
  return values;
}

// test(count, shift, seed) for lengths around those of vectors, at every address.
template <class Test>
void everywhere(Test test) {
  on_every_target([&] {
    for (const std::size_t count : lengths) {
      for (std::size_t shift = 0; shift < 4; ++shift) {
        SCOPED_TRACE(::testing::Message() << count << " elements, shifted by " << shift);
        test(count, shift, 1000 * count + shift);
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

template <class T>
void expect_same_bits(std::span<const T> a, std::span<const T> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << "element " << i;
  }
}

// kernel(values, out) against reference(value) of each, as T in bytes.
template <class T, class Kernel, class Reference>
void check_encode(
    Kernel kernel, Reference reference, float (*most)(std::size_t) = [](std::size_t) { return largest; }) {
  everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    auto drawn = numbers(count, seed);
    for (std::size_t i = 0; i < count; ++i) drawn[i] = std::fmin(std::fmax(drawn[i], -most(i)), most(i));
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    Stretch<std::byte> out(count * sizeof(T), 3 - shift);
    std::vector<std::byte> expected(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) store(expected.data(), i, static_cast<T>(reference(drawn[i], i)));
    kernel(std::span<const float>(values.span()), out.span());
    expect_same_bits<std::byte>(out.span(), expected);
    EXPECT_TRUE(out.guarded());
  });
}

// kernel(in, scale, out) against out[i] += scale * reference(in[i], i).
template <class T, class Kernel, class Reference>
void check_add(Kernel kernel, Reference reference) {
  constexpr float scale = 0.7F;
  everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<std::byte> in(count * sizeof(T), 3 - shift);
    Philox random(seed, Purpose::test);
    for (std::byte& byte : in.span()) byte = static_cast<std::byte>(random.below(256));
    Stretch<float> out(count, shift);
    for (float& x : out.span()) x = static_cast<float>(random.normal());
    std::vector<float> expected(out.span().begin(), out.span().end());
    for (std::size_t i = 0; i < count; ++i) expected[i] += scale * reference(load<T>(in.span().data(), i), i);
    kernel(std::span<const std::byte>(in.span()), scale, out.span());
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(out.span()[i])) << "element " << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out.span()[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << "element " << i;
      }
    }
    EXPECT_TRUE(out.guarded());
  });
}

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

TEST(Targets, FindWhatIsNotFinite) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t) {
    Stretch<std::byte> halves(2 * count, shift, std::byte{0x3A});
    Stretch<std::byte> floats(4 * count, shift, std::byte{0x3A});
    EXPECT_TRUE(all_finite_f16(halves.span()));
    EXPECT_TRUE(all_finite_bf16(halves.span()));
    EXPECT_TRUE(all_finite_f32(floats.span()));
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      if (count == 0) break;
      Stretch<std::byte> bad = halves;
      store(bad.span().data(), at, std::uint16_t{0xFC00});
      EXPECT_FALSE(all_finite_f16(bad.span()));
      EXPECT_TRUE(all_finite_bf16(bad.span()));
      store(bad.span().data(), at, std::uint16_t{0x7F81});
      EXPECT_FALSE(all_finite_bf16(bad.span()));
      Stretch<std::byte> worse = floats;
      store(worse.span().data(), at, -infinity);
      EXPECT_FALSE(all_finite_f32(worse.span()));
      Stretch<std::byte> eights = halves;
      EXPECT_TRUE(valid_int8(eights.span()));
      eights.span()[at] = std::byte{0x80};
      EXPECT_FALSE(valid_int8(eights.span()));
    }
  });
}

// Norms of every size for blocks of 21 values, of which the first one has only 16 left.
constexpr std::size_t block = 21, first = 5;

float norm_of(std::size_t i) {
  constexpr std::array norms{2.5F, 0.0F, 1e-44F, 1e-30F, 0.7F, 1e30F, largest, 1e-19F};
  return norms[(first + i) / block % norms.size()];
}

// Powers of two likewise.
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

TEST(Targets, Int8) {
  const ElementStream stream{77, 88};
  constexpr std::uint32_t offset = 0xFFFFFF00U;
  check_encode<std::int8_t>(
      [](auto values, auto out) { to_int8(values, SomeNorms(values.size()).get(), out); },
      [](float v, std::size_t i) { return element::nearest_level(v, element::Grid(norm_of(i), 127)); }, norm_of);
  check_encode<std::int8_t>(
      [&](auto values, auto out) {
        to_int8_stochastic(values, SomeNorms(values.size()).get(), {stream, offset, {}}, out);
      },
      [&](float v, std::size_t i) {
        return element::random_level(v, element::Grid(norm_of(i), 127),
                                     stream.quick(offset + static_cast<std::uint32_t>(i)));
      });
  check_add<std::int8_t>([](auto in, float scale, auto out) { add_int8(in, SomeNorms(in.size()).get(), scale, out); },
                         [](std::int8_t q, std::size_t i) { return element::from_level(q, norm_of(i), 1.0F / 127); });
}

template <class Format, class Encode, class Add>
void check_float8(Encode encode, Add add) {
  const auto units = [](std::size_t count) { return SomeNorms(count, unit_of); };
  check_encode<std::uint8_t>(
      [&](auto values, auto out) { encode(values, units(values.size()).get(), out); },
      [](float v, std::size_t i) { return element::to_float8<Format>(element::Share(unit_of(i)).of(v)); });
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

TEST(Targets, Trits) {
  on_every_target([] {
    for (const std::size_t count : {0, 1, 4, 5, 6, 63, 319, 320, 321, 639, 640, 643, 4099}) {
      for (const std::size_t shift : {0, 1, 3}) {
        Stretch<std::uint16_t> symbols(count, shift);
        Philox random(count, Purpose::test);
        for (auto& symbol : symbols.span()) symbol = static_cast<std::uint16_t>(random.below(3));
        Stretch<std::byte> packed(trit_bytes(count), 3 - shift);
        pack_trits(symbols.span(), packed.span());
        EXPECT_TRUE(packed.guarded());
        std::vector<std::byte> expected(trit_bytes(count));
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t group = i / 320 * 320;
          const std::size_t n = (std::min<std::size_t>(count - group, 320) + 4) / 5;
          const std::size_t at = group / 5 + (i - group) % n;
          unsigned digit = symbols.span()[i];
          for (std::size_t k = 0; k < (i - group) / n; ++k) digit *= 3;
          expected[at] = static_cast<std::byte>(std::to_integer<unsigned>(expected[at]) + digit);
        }
        expect_same_bits<std::byte>(packed.span(), expected);
        Stretch<std::uint16_t> back(count, 3 - shift);
        unpack_trits(packed.span(), back.span());
        expect_same_bits<std::uint16_t>(back.span(), symbols.span());
        EXPECT_TRUE(back.guarded());

        EXPECT_TRUE(valid_trits(packed.span(), count));
        for (std::size_t at = 0; at < expected.size(); at += 1 + expected.size() / 7) {
          Stretch<std::byte> bad = packed;
          bad.span()[at] = std::byte{243};
          EXPECT_FALSE(valid_trits(bad.span(), count));
        }
        if (count % 5 == 0) continue;
        packed.span().back() = static_cast<std::byte>(std::to_integer<unsigned>(packed.span().back()) % 81 + 81);
        EXPECT_FALSE(valid_trits(packed.span(), count));  // the last byte has no fifth symbol
      }
    }
  });
}

// Symbols are 0, 1, 2, ... for the levels 0, -1, 1, -2, 2, ...
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

TEST(Targets, PackedBits) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Philox random(seed, Purpose::test);
    for (unsigned width = 1; width <= 16; ++width) {
      Stretch<std::uint16_t> symbols(count, shift);
      for (auto& symbol : symbols.span()) symbol = static_cast<std::uint16_t>(random.below(1U << width));
      Stretch<std::byte> packed(packed_bytes(count, width), 3 - shift);
      std::vector<std::byte> expected(packed_bytes(count, width));
      for (std::size_t bit = 0; bit < count * width; ++bit) {
        const unsigned set = (symbols.span()[bit / width] >> (bit % width)) & 1U;
        expected[bit / 8] |= static_cast<std::byte>(set << (bit % 8));
      }
      pack_bits(symbols.span(), width, packed.span());
      expect_same_bits<std::byte>(packed.span(), expected);
      EXPECT_TRUE(packed.guarded());
      Stretch<std::uint16_t> back(count, 3 - shift);
      unpack_bits(packed.span(), width, back.span());
      expect_same_bits<std::uint16_t>(back.span(), symbols.span());
      EXPECT_TRUE(back.guarded());
    }
  });
}

// States, words and symbols are those of rans_step.h, one symbol after the other.
TEST(Targets, Rans) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Philox random(seed, Purpose::test);
    for (const unsigned precision : {10U, 12U, 14U}) {
      for (const std::size_t alphabet : {std::size_t{1}, std::size_t{2}, std::size_t{31}, std::size_t{512}}) {
        std::vector<std::uint32_t> frequencies(alphabet, 1);
        frequencies[alphabet / 2] += (1U << precision) - static_cast<std::uint32_t>(alphabet);
        for (std::size_t i = 0; i < alphabet && alphabet > 1; ++i) {  // from the most frequent to any
          const std::uint32_t some = random.below(frequencies[alphabet / 2]) / 2;
          frequencies[alphabet / 2] -= some;
          frequencies[i] += some;
        }
        std::vector<std::uint32_t> ranges(alphabet), slots(std::size_t{1} << precision);
        rans_ranges(frequencies, ranges);
        const RansSlots table = rans_slots(frequencies, precision, slots);
        Stretch<std::uint16_t> symbols(count, shift);
        for (auto& symbol : symbols.span()) symbol = static_cast<std::uint16_t>(random.below(std::uint32_t(alphabet)));
        for (const std::size_t lanes : {std::size_t{4}, rans_most_lanes}) {
          std::vector<std::uint32_t> states(lanes, rans_lowest), expected_states(lanes, rans_lowest);
          std::vector<std::byte> room(2 * count), expected(2 * count);
          std::byte* const begin = rans_encode(symbols.span(), ranges, precision, states, room.data() + room.size());
          std::byte* at = expected.data() + expected.size();
          for (std::size_t i = count; i-- > 0;) {
            rans_step::put(ranges[symbols.span()[i]], precision, expected_states[i % lanes], at);
          }
          const auto size = static_cast<std::size_t>(expected.data() + expected.size() - at);
          ASSERT_EQ(static_cast<std::size_t>(room.data() + room.size() - begin), size);
          expect_same_bits<std::byte>({begin, size}, {at, size});
          EXPECT_EQ(states, expected_states);

          Stretch<std::uint16_t> back(count, 3 - shift);
          EXPECT_EQ(rans_decode(table, states, {begin, size}, back.span()), size);
          expect_same_bits<std::uint16_t>(back.span(), symbols.span());
          EXPECT_TRUE(back.guarded());
          EXPECT_EQ(states, std::vector<std::uint32_t>(lanes, rans_lowest));
          for (std::size_t cut = 1; cut <= std::min<std::size_t>(size, 3); ++cut) {
            auto again = expected_states;
            EXPECT_GT(rans_decode(table, again, {begin, size - cut}, back.span()), size - cut);
          }
        }
      }
    }
  });
}

// The lanes of reduce.h, one value after the other.
template <class Term>
double reference_sum(std::span<const float> values, Term term) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += sum_chunk) {
    std::array<double, 16> lane{};
    const std::size_t end = std::min(begin + sum_chunk, values.size());
    for (std::size_t i = begin; i < end; ++i) lane[i % 16] += term(static_cast<double>(values[i]));
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
    }
    sum += lane[0];
  }
  return sum;
}

TEST(Targets, SumsOfSeveralChunks) {
  on_every_target([] {
    for (const std::size_t count : {sum_chunk, sum_chunk + 1, 2 * sum_chunk, 2 * sum_chunk + 3001}) {
      const auto values = numbers(count, count);
      const double sum = reference_sum(values, [](double x) { return std::abs(x); });
      const double squares = reference_sum(values, [](double x) { return x * x; });
      std::vector<std::byte> bits((count + 7) / 8);
      EXPECT_EQ(sum_abs(values), sum);
      EXPECT_EQ(sum_squares(values), squares);
      EXPECT_EQ(spread_abs(values).sum, sum);
      EXPECT_EQ(spread_squares(values).sum, squares);
      EXPECT_EQ(spread_abs(values).max_abs_bits, max_abs_bits(values));
      EXPECT_EQ(pack_signs(values, bits), sum);
      for (const std::size_t i : {std::size_t{0}, sum_chunk - 1, sum_chunk, count - 1}) {
        if (i == count) continue;
        EXPECT_EQ((std::to_integer<unsigned>(bits[i / 8]) >> (i % 8)) & 1U, values[i] < 0 ? 1U : 0U) << i;
      }
    }
  });
}

TEST(Targets, SumsAndSigns) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    const double sum = reference_sum(drawn, [](double x) { return std::abs(x); });
    EXPECT_EQ(sum_abs(values.span()), sum);
    EXPECT_EQ(sum_squares(values.span()), reference_sum(drawn, [](double x) { return x * x; }));
    std::uint32_t most = 0;
    for (const float v : drawn) most = std::max(most, element::magnitude_bits(v));
    EXPECT_EQ(max_abs_bits(values.span()), most);
    EXPECT_EQ(spread_abs(values.span()).max_abs_bits, most);
    EXPECT_EQ(spread_abs(values.span()).sum, sum);
    EXPECT_EQ(spread_squares(values.span()).max_abs_bits, most);
    std::vector<std::byte> norms(4 * ((count + block - 1) / block) + 1);
    EXPECT_EQ(max_abs_blocks(values.span(), block, std::span(norms).subspan(1)), most);
    for (std::size_t i = 0; i < count; i += block) {
      const auto part = std::span(drawn).subspan(i, std::min(block, count - i));
      EXPECT_EQ(load<std::uint32_t>(norms.data() + 1, i / block), max_abs_bits(part));
    }
    EXPECT_EQ(spread_squares(values.span()).sum, sum_squares(values.span()));

    Stretch<std::byte> bits((count + 7) / 8, 3 - shift);
    EXPECT_EQ(pack_signs(values.span(), bits.span()), sum);
    EXPECT_TRUE(bits.guarded());
    for (std::size_t i = 0; i < 8 * bits.span().size(); ++i) {
      const unsigned bit = (std::to_integer<unsigned>(bits.span()[i / 8]) >> (i % 8)) & 1U;
      ASSERT_EQ(bit, i < count && drawn[i] < 0 ? 1U : 0U);
    }
    // Every third value a zero, of either sign, whose bit is drawn.
    std::vector<std::uint32_t> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::uint32_t>(5 * i + seed);
    Stretch<float> some(count, shift);
    for (std::size_t i = 0; i < count; ++i) some.span()[i] = i % 3 == 0 ? (i % 2 == 0 ? 0.0F : -0.0F) : drawn[i];
    for (const bool listed : {false, true}) {
      const Draws draws{
          {77, static_cast<std::uint32_t>(seed)}, 4294967290U, listed ? std::span(places) : std::span(places).first(0)};
      Stretch<std::byte> votes((count + 7) / 8, 3 - shift);
      EXPECT_EQ(pack_drawn_signs(some.span(), draws, votes.span()), sum_abs(some.span()));
      EXPECT_TRUE(votes.guarded());
      for (std::size_t i = 0; i < 8 * votes.span().size(); ++i) {
        const unsigned bit = (std::to_integer<unsigned>(votes.span()[i / 8]) >> (i % 8)) & 1U;
        const auto wanted = [&] {
          return some.span()[i] == 0 ? draws.stream.quick(draws.number(i)) >> 31 : some.span()[i] < 0 ? 1U : 0U;
        };
        ASSERT_EQ(bit, i < count ? wanted() : 0U) << i;
      }
    }
    for (std::size_t from = 0; from <= std::min<std::size_t>(count, 9); ++from) {
      Stretch<float> out(count - from, shift, 0.125F);
      add_signs(bits.span(), from, 0.7F, out.span());
      for (std::size_t i = 0; i < out.span().size(); ++i) {
        ASSERT_EQ(out.span()[i], drawn[from + i] < 0 ? 0.125F - 0.7F : 0.125F + 0.7F);
      }
      EXPECT_TRUE(out.guarded());
    }
  });
}

TEST(Targets, Selections) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    auto drawn = numbers(count, seed);
    if (count > 2) drawn[count / 2] = -infinity;
    if (count > 3) drawn[count - 1] = std::numeric_limits<float>::quiet_NaN();
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    for (const float least : {1e-45F, 1.0F, 1e30F}) {
      std::vector<std::uint32_t> found(count);
      found.resize(collect_magnitudes(values.span(), std::bit_cast<std::uint32_t>(least), 5, found.data()));
      std::vector<std::uint32_t> expected;
      for (std::size_t i = 0; i < count; ++i) {
        if (!(std::abs(drawn[i]) < least)) expected.push_back(static_cast<std::uint32_t>(i) + 5);
      }
      EXPECT_EQ(found, expected);
      const Reaching reached = reaching(values.span(), std::bit_cast<std::uint32_t>(least));
      EXPECT_EQ(reached.count, expected.size());
    }
  });
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    for (const float least : {1e-45F, 0.5F, 1e30F}) {
      EXPECT_EQ(reaching(values.span(), std::bit_cast<std::uint32_t>(least)).sum,
                reference_sum(drawn, [&](double x) { return std::abs(x) >= least ? std::abs(x) : 0; }));
    }
  });
}

TEST(Targets, Gaps) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<std::uint32_t> numbers(count, shift);
    Philox random(seed, Purpose::test);
    std::uint32_t next = 7;
    std::vector<std::uint32_t> gaps;
    for (std::uint32_t& number : numbers.span()) {
      // Of every length, but all together less than 2^32.
      gaps.push_back(random.next() >> (random.below(16) == 0 ? 13 + random.below(4) : 20 + random.below(12)));
      if (gaps.size() == 20) gaps.back() = 1U << 29;
      number = next + gaps.back();
      next = number + 1;
    }
    for (const unsigned lowest : {0U, 1U, 6U, 29U}) {
      GapSizes expected;
      for (const std::uint32_t gap : gaps) {
        for (std::uint32_t left = gap >> 7; left > 0; left >>= 7) ++expected.more_groups;
        expected.long_runs += gap / 65535;
        for (unsigned j = 0; j < 3; ++j) expected.quotients[j] += gap >> (lowest + j);
      }
      const GapSizes sizes = gap_sizes(numbers.span(), 7, lowest);
      EXPECT_EQ(sizes.more_groups, expected.more_groups);
      EXPECT_EQ(sizes.long_runs, expected.long_runs);
      EXPECT_EQ(sizes.quotients, expected.quotients);
    }
  });
}

TEST(Targets, Draws) {
  const ElementStream stream{5, 6};
  everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    const auto drawn = numbers(count, seed);
    std::copy(drawn.begin(), drawn.end(), values.span().begin());
    EXPECT_EQ(sum_abs_below(values.span(), std::bit_cast<std::uint32_t>(0.5F)),
              reference_sum(drawn, [](double x) { return std::abs(x) < 0.5 ? std::abs(x) : 0; }));
    for (const double factor : {double{0.3F}, double{1e-30F}, double{largest}, 0x1p130, 0x1.8p150}) {
      const auto p_of_all = static_cast<float>(std::fmin(factor, 1.0));
      for (const bool uniform : {false, true}) {
        std::vector<std::uint32_t> indices(count), expected_indices;
        std::vector<float> scales(count), expected_scales;
        const std::size_t found =
            uniform ? draw_uniform(values.span(), p_of_all, stream, 9, 5, indices.data(), scales.data())
                    : draw_proportional(values.span(), factor, stream, 9, 5, indices.data(), scales.data());
        indices.resize(found);
        scales.resize(found);
        for (std::uint32_t i = 0; i < count; ++i) {
          const double unit = factor > static_cast<double>(largest) ? 0x1p64 : 1.0;
          const float p = uniform ? p_of_all : static_cast<float>(factor / unit) * std::abs(drawn[i]);
          const double t = std::fmax(std::floor(std::fmin(static_cast<double>(p) * unit * 0x1p31, 0x1p31)), 1);
          if (drawn[i] == 0 || (stream.quick(9 + i) >> 1) >= t) continue;
          expected_indices.push_back(5 + i);
          expected_scales.push_back(static_cast<float>(0x1p31 / t));
        }
        EXPECT_EQ(indices, expected_indices);
        EXPECT_EQ(scales, expected_scales);
      }
    }
  });
}

TEST(Targets, Clusters) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Stretch<float> values(count, shift);
    auto drawn = numbers(count, seed);
    for (unsigned width = 1; width <= 9; ++width) {
      // Some equal, some values themselves, and not all of them finite.
      std::vector<float> boundaries = numbers((std::size_t{1} << width) - 1, seed + width);
      for (std::size_t k = 0; k < boundaries.size() && k < count; k += 2) boundaries[k] = drawn[k];
      if (width > 2) boundaries[0] = boundaries[1] = infinity;
      std::sort(boundaries.begin(), boundaries.end());
      if (count > 3) drawn[3] = std::numeric_limits<float>::quiet_NaN();
      std::copy(drawn.begin(), drawn.end(), values.span().begin());
      Stretch<std::uint16_t> symbols(count, shift);
      find_clusters(values.span(), boundaries, symbols.span());
      for (std::size_t i = 0; i < count; ++i) {
        const auto below = std::count_if(boundaries.begin(), boundaries.end(), [&](float b) { return drawn[i] > b; });
        ASSERT_EQ(symbols.span()[i], below) << "width " << width << ", value " << drawn[i];
      }
      EXPECT_TRUE(symbols.guarded());
    }
  });
}

TEST(Targets, Buckets) {
  constexpr std::array<Table, 3> tables{Table{0, 3}, {3, 1}, {4, 7}};
  constexpr std::size_t begin = 11;
  const std::vector<float> values = numbers(100, 70, 100);
  std::vector<std::uint16_t> symbols(100);
  for (std::size_t i = 0; i < 100; ++i) symbols[i] = static_cast<std::uint16_t>(i % 3);
  std::vector<BucketSum> sums(11), expected(11);
  add_to_buckets(values, symbols, begin, tables, sums);
  std::vector<float> out(100), expected_out(100), centres{1, 2, 3}, means(11);
  for (std::size_t b = 0; b < 11; ++b) means[b] = static_cast<float>(b) + 0.5F;
  add_buckets(symbols, begin, tables, std::as_bytes(std::span(means)), 0.5F, out);
  add_centres(symbols, std::as_bytes(std::span(centres)), 2, out);
  for (std::size_t i = 0; i < 100; ++i) {
    const Table& table = tables[symbols[i]];
    const std::size_t bucket = table.first + ((hash64(begin + i) >> 32) * table.size >> 32);
    ASSERT_LT(bucket, table.first + table.size);
    expected[bucket].sum += static_cast<double>(values[i]);
    ++expected[bucket].count;
    expected_out[i] = 0.5F * means[bucket] + 2 * centres[symbols[i]];
  }
  for (std::size_t b = 0; b < 11; ++b) {
    EXPECT_EQ(sums[b].sum, expected[b].sum);
    EXPECT_EQ(sums[b].count, expected[b].count);
  }
  EXPECT_EQ(out, expected_out);
}

TEST(Targets, Vectors) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    const auto a = numbers(count, seed, 1e20F);
    const auto b = numbers(count, seed + 1, 1e20F);
    Stretch<float> out(count, shift);
    std::copy(b.begin(), b.end(), out.span().begin());
    std::vector<float> expected = b;
    add(a, out.span());
    scale(0.3F, out.span());
    axpy(-0.7F, a, out.span());
    xpay(a, 0.9F, out.span());
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] += a[i];
      expected[i] *= 0.3F;
      expected[i] += -0.7F * a[i];
      expected[i] = a[i] + 0.9F * expected[i];
    }
    expect_same_bits<float>(out.span(), expected);
    EXPECT_TRUE(out.guarded());
  });
}

TEST(Targets, Momentum) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    for (const bool nesterov : {false, true}) {
      const auto gradient = numbers(count, seed, 1e20F);
      auto u = numbers(count, seed + 1, 1e20F);
      auto v = numbers(count, seed + 2, 1e20F);
      Stretch<float> velocity(count, shift);
      Stretch<float> held(count, shift);
      std::ranges::copy(u, velocity.span().begin());
      std::ranges::copy(v, held.span().begin());
      (nesterov ? add_nesterov : add_momentum)(0.9F, 0.7F, gradient, velocity.span(), held.span());
      for (std::size_t i = 0; i < count; ++i) {
        (nesterov ? element::add_nesterov : element::add_momentum)(0.9F, 0.7F * gradient[i], u[i], v[i]);
      }
      expect_same_bits<float>(velocity.span(), u);
      expect_same_bits<float>(held.span(), v);
      EXPECT_TRUE(velocity.guarded() && held.guarded());
    }
  });
}

TEST(Targets, SketchPlaces) {
  for (const std::uint32_t width : {1U, 2U, 1000U, sketch_window}) {
    everywhere([&](std::size_t count, std::size_t shift, std::uint64_t seed) {
      const ElementStream stream = element_stream(seed, Purpose::test, 0, 0, 0);
      Stretch<std::uint32_t> places(count, shift);
      const std::uint32_t number = 0xFFFFFFF0U;  // wraps
      sketch_places(stream, number, width, places.span());
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t random = stream.quick(number + static_cast<std::uint32_t>(i));
        ASSERT_EQ(places.span()[i], element::sketch_place(random, width));
        ASSERT_LT(places.span()[i] / 2, width);
      }
      EXPECT_TRUE(places.guarded());
    });
  }
}

}  // namespace
}  // namespace sotto::kernels
