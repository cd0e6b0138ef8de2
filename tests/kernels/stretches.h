#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/kernels/bits.h"
#include "tests/kernels/targets.h"

namespace sotto::kernels {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float largest = std::numeric_limits<float>::max();
inline constexpr std::array<std::size_t, 26> lengths{0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,
                                                     32, 33, 47, 63, 64, 65, 79, 127, 128, 129, 200, 257, 4099};

// Blocks have 21 values. A stretch begins with value 5 of a block, so the first one has 16 left.
inline constexpr std::size_t block = 21, first = 5;

// A stretch that begins `shift` elements after an aligned address.
template <class T>
class Stretch {
 public:
  Stretch(std::size_t count, std::size_t shift, T fill = T{})
      : room_(count + shift + guard, fill), shift_(shift), fill_(fill) {}
  std::span<T> span() { return std::span(room_).subspan(shift_, room_.size() - shift_ - guard); }
  // Whether nothing was written after the stretch.
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

// Normal numbers with both zeros, denormals, very large and very small numbers among them; none beyond `most`.
inline std::vector<float> numbers(std::size_t count, std::uint64_t seed, float most = largest) {
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

// Calls test(count, shift, seed) with lengths around multiples of SIMD vectors, at every alignment, on every target.
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

// Compares the bytes that kernel(values, out) writes with reference(value, i) of each value, as T.
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

// Compares kernel(in, scale, out) with out[i] += scale * reference(in[i], i).
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

}  // namespace sotto::kernels
