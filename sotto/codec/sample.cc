#include "sotto/codec/sample.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "sotto/core/random.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

constexpr float spread = 0.01F;  // a rough standard deviation of gradients

// Two standard normal numbers from two uniform ones (Box-Muller).
struct Pair {
  float a, b;
};

Pair normal_pair(const ElementStream& stream, std::uint32_t i) {
  const float radius = std::sqrt(-2.0F * std::log(1.0F - stream.uniform(i)));
  const float angle = 2.0F * std::numbers::pi_v<float> * stream.uniform(i + 1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

ElementStream sample_stream(std::uint64_t seed) { return element_stream(seed, Purpose::test, 0, 0, 0); }

void fill_gaussian(std::uint64_t seed, std::span<float> out) {
  const ElementStream stream = sample_stream(seed);
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const Pair normal = normal_pair(stream, static_cast<std::uint32_t>(i));
    out[i] = spread * normal.a;
    if (i + 1 < out.size()) out[i + 1] = spread * normal.b;
  }
}

void fill_student(std::uint64_t seed, std::span<float> out) {
  const ElementStream stream = sample_stream(seed);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto draw = static_cast<std::uint32_t>(4 * i);
    const Pair x = normal_pair(stream, draw);
    const Pair y = normal_pair(stream, draw + 2);
    out[i] = spread * x.a / std::sqrt((x.b * x.b + y.a * y.a + y.b * y.b) / 3.0F + 1e-12F);
  }
}

void fill_sparse(std::uint64_t seed, std::span<float> out) {
  fill_gaussian(seed, out);
  const ElementStream stream = sample_stream(~seed);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (stream.uniform(static_cast<std::uint32_t>(i)) >= 0.05F) out[i] = 0;
  }
}

constexpr std::array entries{
    SampleEntry{"gaussian", "normal, standard deviation 0.01", fill_gaussian},
    SampleEntry{"student", "Student's t with 3 degrees of freedom, times 0.01: heavy tails, as gradients have",
                fill_student},
    SampleEntry{"sparse", "normal, 95 % of the elements zero", fill_sparse},
};
constexpr Table<SampleEntry> table("sample", entries);

}  // namespace

const Table<SampleEntry>& sample_table() { return table; }

void fill_sample(std::string_view option, std::string_view name, std::uint64_t seed, std::span<float> out) {
  table.require(option, name).fill(seed, out);
}

}  // namespace sotto
