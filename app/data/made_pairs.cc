#include "app/data/made_pairs.h"

#include <algorithm>
#include <array>
#include <string>

#include "app/data/generated.h"

namespace sotto {
namespace {

constexpr std::uint16_t words_each = 48, first_word = 4;  // after the marks

// Word k of the source language is token 4 + k, its translation token 52 + k.
class MadeVocabulary final : public Vocabulary {
 public:
  std::int64_t size() const override { return first_word + 2 * words_each; }

  std::vector<std::uint16_t> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(word.size() + 1, text.size()));
      std::uint16_t token = first_word;
      while (token < size() && spelling(token) != word) ++token;
      tokens.push_back(token < size() ? token : 1);
    }
    return tokens;
  }
  std::string decode(std::span<const std::int64_t> tokens) const override {
    std::string text;
    for (const std::int64_t token : tokens) {
      if (token < first_word || token >= size()) continue;
      text += (text.empty() ? "" : " ") + spelling(static_cast<std::uint16_t>(token));
    }
    return text;
  }

 private:
  // Two syllables; the first one tells the language.
  static std::string spelling(std::uint16_t token) {
    constexpr std::array<std::string_view, 8> first{"ba", "de", "fi", "go", "lu", "ma", "ne", "ri"};
    constexpr std::array<std::string_view, 12> second{"na", "ter", "lo", "mi",  "sen", "ku",
                                                      "ra", "vel", "to", "pin", "sha", "dor"};
    const unsigned word = token - first_word;
    return std::string(first[word / second.size()]) + std::string(second[word % second.size()]);
  }
};

}  // namespace

std::unique_ptr<Pairs> open_made_pairs(const DataOptions& options, Split split) {
  const auto seed = static_cast<std::uint64_t>(options.data_seed);
  auto pairs = std::make_unique<Pairs>();
  pairs->vocabulary = std::make_unique<MadeVocabulary>();
  const std::size_t count = generated_size(options, split, 20'000, 500);
  for (std::size_t i = 0; i < count; ++i) {
    Philox random = example_random(seed, split, i);
    std::vector<std::uint16_t> source(3 + random.below(8));
    for (std::uint16_t& word : source) word = static_cast<std::uint16_t>(first_word + random.below(words_each));
    std::vector<std::uint16_t> target(source.rbegin(), source.rend());
    for (std::uint16_t& word : target) word += words_each;
    pairs->references.push_back(pairs->vocabulary->decode(std::vector<std::int64_t>(target.begin(), target.end())));
    pairs->sources.push_back(std::move(source));
    pairs->targets.push_back(std::move(target));
  }
  return pairs;
}

}  // namespace sotto
