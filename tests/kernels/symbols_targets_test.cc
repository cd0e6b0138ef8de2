// Packed symbols and their codes on every SIMD target.
#include <algorithm>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/rans.h"
#include "tests/kernels/stretches.h"

namespace sotto::kernels {
namespace {

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
        EXPECT_FALSE(valid_trits(packed.span(), count));  // the last byte has no fifth symbol, so it must be smaller
      }
    }
  });
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

// Compares states, words and symbols with the results of rans_step (rans.h), which goes symbol by symbol.
TEST(Targets, Rans) {
  everywhere([](std::size_t count, std::size_t shift, std::uint64_t seed) {
    Philox random(seed, Purpose::test);
    for (const unsigned precision : {10U, 12U, 14U}) {
      for (const std::size_t alphabet : {std::size_t{1}, std::size_t{2}, std::size_t{31}, std::size_t{512}}) {
        std::vector<std::uint32_t> frequencies(alphabet, 1);
        frequencies[alphabet / 2] += (1U << precision) - static_cast<std::uint32_t>(alphabet);
        for (std::size_t i = 0; i < alphabet && alphabet > 1; ++i) {  // moves counts to other symbols
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

}  // namespace
}  // namespace sotto::kernels
