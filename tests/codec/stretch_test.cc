// A quantiser gets the sent values of a segment in stretches, and gets the same facts with each stretch.
#include <gtest/gtest.h>

#include "sotto/codec/chain.h"
#include "sotto/kernels/bits.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// Sends floats as they are, and checks the facts that come with each stretch.
class Watching final : public Quantise, public AgreedNumbers {
 public:
  Packing packing() const override { return Packing::of_width(32); }
  std::size_t agreed_count() const override { return 1; }
  void propose(std::span<const float>, std::uint64_t, std::span<float>) override {}
  bool encode(const Values& values, std::span<std::byte>, std::span<std::byte> packed) override {
    EXPECT_EQ(values.step, 9U);
    EXPECT_EQ(values.place, std::uint64_t{4} << 32);
    EXPECT_EQ(values.agreed.size(), 1U);
    ++stretches;
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      EXPECT_EQ(values.data[i], static_cast<float>(values.draws.number(i)));
      kernels::store(packed.data(), i, values.data[i]);
    }
    return true;
  }
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += scale * kernels::load<float>(in.packed.data(), i);
  }
  Contract contract(std::size_t) const override { return {}; }
  int stretches = 0;
};

TEST(Stretches, AreToldWhatTheWholeIs) {
  for (const std::size_t elements : {std::size_t{100}, std::size_t{300'000}}) {
    Stages stages;
    auto watching = std::make_unique<Watching>();
    const Watching& its = *watching;
    stages.quantise = std::move(watching);
    Chain codec({}, std::move(stages));
    Input input{"numbers", {{{"w", 0, {static_cast<std::int64_t>(elements)}}}, elements}, {}};
    input.values.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) input.values[i] = static_cast<float>(i);
    const auto message = encode(codec, input, {.step = 9}, 4);
    EXPECT_EQ(decode(codec, input, message), input.values);
    EXPECT_EQ(its.stretches > 1, elements > 100);
  }
}

}  // namespace
}  // namespace sotto::testing
