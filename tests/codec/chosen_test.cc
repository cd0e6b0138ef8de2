// What clear_chosen() says was chosen: the elements that a selection sent, but for segments that it always sends whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "sotto/codec/chain.h"
#include "sotto/codec/quantise/f32.h"
#include "sotto/codec/select/topk.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {
namespace {

// Whether each element was chosen for this message; by another instance than its encoder.
std::vector<bool> chosen(const Codec& codec, const Input& input, std::span<const std::byte> message) {
  std::vector<float> marks(input.values.size(), 1.0F);
  Bucket out{marks, &input.layout, 0};
  codec.clear_chosen(MessageView::parse(message), {0, marks.size()}, out);
  std::vector<bool> found;
  for (const float mark : marks) {
    EXPECT_TRUE(mark == 0.0F || mark == 1.0F);
    found.push_back(mark == 0.0F);
  }
  return found;
}

TEST(Chosen, IsAllThatASelectionSentAndNothingElse) {
  for (const std::string& sentence : all_sentences()) {
    SCOPED_TRACE(sentence);
    const auto codec = make_codec("test", sentence);
    for (const Input& input : all_inputs()) {
      if (!fits(sentence, input)) continue;
      const auto message = encode(*codec, input);
      const auto found = chosen(*make_codec("test", sentence), input, message);
      if (!selects(sentence) || transforms(sentence)) {
        EXPECT_EQ(std::ranges::count(found, true), 0) << input.name;
        continue;
      }
      const auto decoded = decode(*codec, input, message);
      std::vector<bool> in_segments(found.size());
      for (const Segment& segment : input.layout.segments()) {
        const Range range = segment.range();
        bool any = false;
        for (std::size_t i = range.begin; i < range.end; ++i) any = any || found[i];
        for (std::size_t i = range.begin; i < range.end; ++i) {
          if (any) {
            EXPECT_TRUE(found[i] || decoded[i] == 0) << input.name << " " << i;
          }
          in_segments[i] = found[i];
        }
      }
      EXPECT_EQ(found, in_segments) << input.name << ": padding";
    }
  }
}

TEST(Chosen, IsTheSameOfAMessageAndOfItsLinearForm) {
  const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 50)};
  for (const std::string& sentence : all_sentences()) {
    const auto codec = make_codec("test", sentence);
    if (!codec->linear_type()) continue;
    const auto message = encode(*codec, input, {.seed = 51, .rank = 1, .step = 7});
    std::vector<float> marks(input.values.size(), 1.0F);
    Bucket out{marks, &input.layout, 0};
    codec->clear_chosen({.seed = 51, .rank = 2, .step = 7}, out);
    const auto found = chosen(*codec, input, message);
    for (std::size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(marks[i] == 0, found[i]) << sentence << ", " << i;
  }
}

TEST(Chosen, OfTopKAreTheLargestEvenWhereTheyBecameZero) {
  const Layout layout({{"matrix", 0, {2, 4}}, {"rest", 8, {4}}}, 12);
  const Input input{"few", layout, {1, -8, 2, 7, 0.5F, 0, 0, 3, 0.25F, 0, 9, 0}};
  for (const char* sentence : {"topk(0.25)", "topk(0.25) | f16", "topk(0.25) | qsgd(bits=1)"}) {
    const auto codec = make_codec("test", sentence);
    const std::vector<bool> wanted{false, true, false, true, false, false, false, false, false, false, true, false};
    for (std::uint32_t step = 0; step < 8; ++step) {  // 7 of 8, as one bit, is 0 in some of them
      EXPECT_EQ(chosen(*codec, input, encode(*codec, input, {.step = step})), wanted) << sentence;
    }
  }
}

// Vectors as they are, and the largest of all others.
class Dense final : public Select {
 public:
  std::string sentence() const override { return "dense"; }
  bool sends_whole(const Group& group) const override { return group.dimensions < 2; }
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override {
    std::size_t sum = 0;
    for (std::size_t g = 0; g < atoms.size(); ++g) sum += each[g] = atoms[g];
    return sum;
  }
  std::size_t select(std::span<const Group> groups, const Streams&, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float>) override {
    std::size_t total = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto energies = groups[g].energies;
      const auto largest = std::ranges::max_element(energies, {}, [](float x) { return std::abs(x); });
      counts[g] = 0;
      for (std::uint32_t i = 0; i < energies.size(); ++i) {
        if (!sends_whole(groups[g]) && i != static_cast<std::size_t>(largest - energies.begin())) continue;
        indices[total++] = groups[g].first + i;
        ++counts[g];
      }
    }
    return total;
  }
  Contract contract(std::span<const std::size_t>) const override { return {.kind = Contract::Kind::none}; }
};

TEST(Chosen, IsNothingOfASegmentThatIsAlwaysSentWhole) {
  Stages stages;
  stages.select = std::make_unique<Dense>();
  stages.quantise = std::make_unique<F32>(F32::Options{});
  Chain codec(std::move(stages));
  const Layout layout({{"bias", 0, {3}}, {"matrix", 3, {2, 3}}, {"scale", 9, {1}}}, 10);
  const Input input{"mixed", layout, {1, 2, 3, 4, -9, 5, 6, 7, 8, 10}};
  const auto message = encode(codec, input);
  EXPECT_EQ(decode(codec, input, message), (std::vector<float>{1, 2, 3, 0, -9, 0, 0, 0, 0, 10}));
  std::vector<bool> wanted(10);
  wanted[4] = true;
  EXPECT_EQ(chosen(codec, input, message), wanted);
}

}  // namespace
}  // namespace sotto::testing
