#include <algorithm>
#include <array>

#include "app/data/made/generated.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"

namespace sotto {
namespace {

constexpr std::uint32_t words = 300;
constexpr std::size_t train_bytes = 1'000'000, test_bytes = 100'000;
// A word is followed by the first of its successors in 8 of 16 cases, by the second in 4, ..
constexpr std::array<std::uint32_t, 4> shares{8, 4, 3, 1};

struct Word {
  std::string spelling;
  std::array<std::uint32_t, shares.size()> successors{};
};

std::vector<Word> language(std::uint64_t seed) {
  constexpr std::string_view consonants = "bdfghklmnprstvwz", vowels = "aeiou";
  const auto letter = [](std::string_view of, Philox& random) {
    return of[random.below(static_cast<std::uint32_t>(of.size()))];
  };
  Philox random(seed, Purpose::data, std::uint64_t{1} << 41);  // no example has this index
  std::vector<Word> made(words);
  for (Word& word : made) {
    for (std::uint32_t syllables = 1 + random.below(3); syllables > 0; --syllables) {
      word.spelling += letter(consonants, random);
      word.spelling += letter(vowels, random);
      if (random.below(3) == 0) word.spelling += letter(consonants, random);
    }
    for (std::uint32_t& next : word.successors) next = random.below(words);
  }
  return made;
}

std::uint32_t after(const Word& word, Philox& random) {
  std::uint32_t drawn = random.below(16);
  std::size_t i = 0;
  while (drawn >= shares[i]) drawn -= shares[i++];
  return word.successors[i];
}

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

std::unique_ptr<Text> open_made_text(const DataOptions& options, Split split) {
  const auto seed = static_cast<std::uint64_t>(options.data_seed);
  const std::vector<Word> known = language(seed);
  const std::size_t size = split == Split::train ? train_bytes : test_bytes;
  auto text = std::make_unique<Text>();
  text->tokens.reserve(size + 256);
  for (std::uint64_t line = 0; text->tokens.size() < size; ++line) {
    Philox random = example_random(seed, split, line);
    const std::size_t start = text->tokens.size();
    std::uint32_t word = random.below(words);
    for (std::uint32_t left = 4 + random.below(10); left > 0; --left) {
      for (const char c : known[word].spelling) text->tokens.push_back(static_cast<std::uint8_t>(c));
      text->tokens.push_back(left == 1 ? '.' : ' ');
      word = after(known[word], random);
    }
    text->tokens[start] -= 'a' - 'A';
    text->tokens.push_back('\n');
  }
  text->tokens.resize(size);
  return text;
}

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
