#include "sotto/core/random.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace sotto {
namespace {

struct Product {
  std::uint32_t high, low;
};

Product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t p = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(p >> 32), static_cast<std::uint32_t>(p)};
}

std::array<std::uint32_t, 2> split(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(0xD2511F53U, c[0]);
    const Product p1 = multiply(0xCD9E8D57U, c[2]);
    c = {p1.high ^ c[1] ^ k[0], p1.low, p0.high ^ c[3] ^ k[1], p0.low};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

Philox::Philox(std::uint64_t seed, Purpose purpose, std::uint64_t index) : key_(split(seed)) {
  const auto [low, high] = split(index);
  // The purpose takes the top byte of the last word, so an index has 56 bits.
  counter_ = {0, 0, low, (high & 0x00FFFFFFU) | (static_cast<std::uint32_t>(purpose) << 24)};
}

std::uint32_t Philox::next() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

double Philox::uniform() {
  const std::uint64_t high = next();
  return static_cast<double>(((high << 32) | next()) >> 11) * 0x1p-53;
}

double Philox::normal() {
  const double u = 1.0 - uniform();  // (0, 1]: the logarithm is finite
  const double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint32_t Philox::below(std::uint32_t bound) {
  // Lemire's method: take the high word of a product, and reject the few low words that would bias it.
  const std::uint32_t threshold = (0U - bound) % bound;
  for (;;) {
    const Product p = multiply(next(), bound);
    if (p.low >= threshold) return p.high;
  }
}

ElementStream element_stream(std::uint64_t seed, Purpose purpose, std::uint32_t rank, std::uint64_t step,
                             std::uint32_t bucket, std::uint32_t part) {
  const auto key =
      philox({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), bucket, part}, split(seed));
  const auto mixed = philox({key[0], key[1], rank, static_cast<std::uint32_t>(purpose)}, {key[2], key[3]});
  return {mixed[0], mixed[1]};
}

void shuffle(std::span<std::uint32_t> values, std::uint64_t seed, std::uint64_t index) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i);
  Philox random(seed, Purpose::shuffle, index);
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace sotto
