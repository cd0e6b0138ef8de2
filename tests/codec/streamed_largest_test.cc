// Finds the largest numbers without keeping all of them; compared with a sort.
#include "sotto/codec/transform/streamed_largest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "sotto/core/random.h"

namespace sotto::testing {
namespace {

std::vector<float> naive(const std::vector<float>& numbers, std::size_t keep, float scale) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return std::abs(numbers[i]); });
  std::vector<float> out(numbers.size(), 1.0F);
  for (const std::size_t i : std::span(order).first(keep)) out[i] += scale * numbers[i];
  return out;
}

// Checks the largest numbers; returns how often each number was computed on average.
double expect_the_largest(const std::vector<float>& numbers, std::size_t keep) {
  double computed = 0;
  const auto wanted = naive(numbers, keep, -0.5F);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads, 5000);
    std::atomic<std::size_t> count = 0;
    const auto from = [&](std::size_t begin, std::span<float> out) {
      std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
      count += out.size();
    };
    StreamedLargest largest;
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<float> out(numbers.size(), 1.0F);
      count = 0;
      largest.add(pool, Computed(from), keep, -0.5F, out);
      EXPECT_EQ(out, wanted) << numbers.size() << " numbers, " << keep << ", " << threads;
    }
    if (threads == 1) computed = static_cast<double>(count) / static_cast<double>(numbers.size());
  }
  return computed;
}

TEST(StreamedLargest, AreThoseOfASort) {
  Philox random(90, Purpose::test);
  for (const std::size_t size : {1, 7, 255, 4096, 4097, 60'000, 150'001}) {
    std::vector<float> normal(size);
    for (float& x : normal) x = static_cast<float>(random.normal());
    std::vector<float> rounded(size), sparse(size), late(size), equal(size, -2.0F);
    for (std::size_t i = 0; i < size; ++i) {
      rounded[i] = std::round(2 * normal[i]) / 2;  // a few magnitudes, and zeros
      sparse[i] = i % 1000 == 3 ? normal[i] : (i % 2 == 0 ? 0.0F : -0.0F);
      late[i] = normal[i] * (i % 4096 >= 4000 ? 1e6F : 1e-40F);  // a sample of these says little
    }
    for (const auto* numbers : {&normal, &rounded, &sparse, &late, &equal}) {
      for (const std::size_t keep : {std::size_t{0}, std::size_t{1}, size / 200, size / 20, size / 3, size - 1}) {
        if (keep < size) expect_the_largest(*numbers, keep);
      }
    }
  }
}

TEST(StreamedLargest, AreMostlyFoundAtOnce) {
  Philox random(91, Purpose::test);
  std::vector<float> normal(1'000'000);
  for (float& x : normal) x = static_cast<float>(random.normal());
  for (const std::size_t keep : {1, 100, 5000, 50'000}) EXPECT_LT(expect_the_largest(normal, keep), 1.1);
}

}  // namespace
}  // namespace sotto::testing
