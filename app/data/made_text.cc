#include "app/data/made_text.h"

#include <array>
#include <string>
#include <string_view>

#include "app/data/generated.h"

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

}  // namespace sotto
