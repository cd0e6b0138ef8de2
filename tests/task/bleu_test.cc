// BLEU is sacrebleu's. tools/bleu_goldens.py made the numbers.
#include "app/task/translate.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace sotto {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Bleu, HasTheWordsOf13a) {
  const std::vector<std::pair<std::string_view, std::string_view>> known{
      {"A man, 3.5 feet tall: \"hello\" -- it's 1,000.5!", "A man , 3.5 feet tall : \" hello \" -- it's 1,000.5 !"},
      {"&quot;x&quot; &amp; &lt;b&gt; <skipped>", "\" x \" & < b >"},
      {"10-20 a-b 3-ß ß-3 9-", "10 - 20 a-b 3 - ß ß-3 9 -"},
      {".. ... .5 5. a.5 5.a ,, a,5 5,a", ". . . . . . 5 5 . a . 5 5 . a , , a , 5 5 , a"},
      {"é. ü, 日本語。 “q” – —", "é . ü , 日本語。 “q” – —"},
      {"(x)[y]{z} a/b #1 50% $5 @me ~ ` ^ a_b *", "( x ) [ y ] { z } a / b # 1 50 % $ 5 @ me ~ ` ^ a _ b *"},
      {"a b c　d e", "a b c d e"},
      {"\ttabs  and   spaces ", "tabs and spaces"},
  };
  for (const auto& [text, words] : known) EXPECT_EQ(joined(words_13a(text)), words);
  EXPECT_TRUE(words_13a("").empty());
}

TEST(Bleu, IsSacrebleus) {
  struct Pair {
    std::string_view output, reference;
    double score;
  };
  const std::vector<Pair> known{
      {"the cat sat on the mat .", "the cat sat on the mat .", 100.00000000000004},
      {"the the the the the the the", "the cat is on the mat", 7.809849842300637},
      {"a dog runs across the green field", "a brown dog runs across the field", 45.499414040480374},
      {"two men are cooking", "two men are cooking in a kitchen with pans.", 22.31301601484299},
      {"it is.", "it is.", 0.0},
      {"nothing alike here", "completely other words", 0.0},
      {"a b c d e f g h", "a b x c d y e f z", 16.882295545316378},
  };
  BleuCounts sum{};
  for (const Pair& pair : known) {
    const BleuCounts counts = bleu_counts(pair.output, pair.reference);
    EXPECT_NEAR(bleu_score(counts), pair.score, 1e-9) << pair.output;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += counts[i];
  }
  EXPECT_NEAR(bleu_score(sum), 40.716293878635256, 1e-9);
  EXPECT_EQ(bleu_score(bleu_counts("", "some words")), 0);
}

}  // namespace
}  // namespace sotto
