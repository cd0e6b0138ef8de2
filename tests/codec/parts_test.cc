// Laws of parts of a bucket.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/codec/laws.h"

namespace sotto::testing {
namespace {

// Parts of the layout: cut at the borders of segments, and also within segments where the contract's grain allows it.
std::vector<Range> cut_at_grain(const Layout& layout, const Contract& contract) {
  std::vector<std::size_t> cuts{0};
  for (const Segment& segment : layout.segments()) {
    const std::size_t step = contract.grain == Contract::Grain::element ? 1
                             : contract.grain == Contract::Grain::block ? contract.block
                                                                        : segment.numel() + 1;
    for (std::size_t at = 0; at < std::max<std::size_t>(segment.numel(), 1); at += 3 * step) {
      cuts.push_back(segment.offset + at);
    }
  }
  cuts.push_back(layout.size());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> parts;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) parts.push_back({cuts[i], cuts[i + 1]});
  return parts;
}

// Without a selection, values do not depend on where a bucket is cut. A selection keeps its contract in every part.
TEST(Laws, PartsCutAtTheGrainKeepTheContract) {
  for_all([](const std::string& expression) {
    if (expression.find("scope=bucket") != std::string::npos) return;  // selects over the whole message
    const auto other = fresh(expression);
    const bool whole = !selects(expression) && !transforms(expression), stochastic = is_stochastic(expression);
    for (const Input& input : all_inputs()) {
      if (input.values.size() < 2 || !fits(expression, input)) continue;
      const auto codec = fresh(expression);  // clusters that are shared may change with each encoding
      const Contract contract = codec->contract(input.layout);
      const auto parts = cut_at_grain(input.layout, contract);
      const auto messages = encode_parts(*codec, input, parts);
      std::vector<float> out(input.values.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(messages[i].view().header().part, i);
        EXPECT_LE(messages[i].bytes().size(), codec->max_bytes(input.layout, parts[i]));
        add_part(*other, input.layout, parts[i], messages[i].bytes(), 1, out);
      }
      if (whole) {
        EXPECT_EQ(out, decode(*codec, input, encode(*fresh(expression), input))) << input.name;
      } else if (contract.kind != Contract::Kind::none && !stochastic) {
        for (const Range part : parts) {
          std::int64_t n = 0;  // elements without padding
          for (const Segment& segment : input.layout.segments()) {
            const Range range = segment.range();
            const std::size_t begin = std::max(part.begin, range.begin), end = std::min(part.end, range.end);
            if (begin < end) n += static_cast<std::int64_t>(end - begin);
          }
          const double delta = contract.grain == Contract::Grain::segment
                                   ? contract.delta
                                   : codec->contract({{{"part", 0, {1, n}}}, static_cast<std::size_t>(n)}).delta;
          const auto sent = std::span(out).subspan(part.begin, part.size());
          const auto given = std::span(input.values).subspan(part.begin, part.size());
          EXPECT_LE(square_distance(sent, given), (1 - delta) * square_norm(given) + tolerance(input)) << input.name;
        }
      }
    }
  });
}

TEST(Laws, AnEmptyPartIsAMessageToo) {
  for_all([](const std::string& expression) {
    const auto codec = fresh(expression);
    const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 9)};
    for (const Range part : {Range{0, 0}, Range{20, 20}, Range{108, 112}}) {  // the last one is padding only
      std::vector<float> out(input.values.size());
      add_part(*codec, input.layout, part, encode_part(*codec, input, part), 1, out);
      EXPECT_EQ(square_norm(out), 0);
    }
  });
}

}  // namespace
}  // namespace sotto::testing
