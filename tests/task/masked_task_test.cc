// Which tokens of a text are hidden, and how.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "app/data/text/text.h"
#include "app/model/language_model.h"
#include "app/task/text_task.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

constexpr std::string_view small_bert = "bert-mini(layers=1, heads=2, width=8, inner=8, context=20, dropout=0)";
constexpr std::int64_t mask = 50;

std::vector<std::uint16_t> piece_of(std::size_t size) {
  std::vector<std::uint16_t> piece(size);
  for (std::size_t i = 0; i < size; ++i) piece[i] = static_cast<std::uint16_t>(i % mask);
  return piece;
}

TextBatch hidden(std::span<const std::uint16_t> piece, std::uint64_t index) {
  TextBatch batch;
  hide_tokens(piece, mask, Philox(3, Purpose::test, index), batch);
  return batch;
}

TEST(HideTokens, HidesAShareOfEachExample) {
  for (const auto& [size, wanted] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {2, 1}, {9, 1}, {10, 2}, {20, 3}, {100, 15}, {128, 19}, {512, 77}}) {
    const auto piece = piece_of(size);
    const TextBatch batch = hidden(piece, size);
    EXPECT_EQ(batch.tokens.size(), size);
    EXPECT_EQ(batch.places.size(), wanted) << size;
    EXPECT_TRUE(std::ranges::is_sorted(batch.places));
    ASSERT_EQ(batch.wanted.size(), wanted);
    for (std::size_t i = 0; i < wanted; ++i) {
      EXPECT_EQ(batch.wanted[i], piece[static_cast<std::size_t>(batch.places[i])]);
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (!std::ranges::count(batch.places, static_cast<std::int64_t>(i))) {
        EXPECT_EQ(batch.tokens[i], piece[i]);
      }
    }
  }
}

// 80 % of the hidden tokens are masked. 10 % are replaced by a random token, which is the same one once in `mask`
// times.
TEST(HideTokens, HidesInThreeWays) {
  const auto piece = piece_of(100);
  std::vector<double> hidden_at(100), shown(mask + 1);
  double masked = 0, same = 0;
  constexpr int count = 4000;
  for (int k = 0; k < count; ++k) {
    const TextBatch batch = hidden(piece, static_cast<std::uint64_t>(k));
    for (std::size_t i = 0; i < batch.places.size(); ++i) {
      const auto place = static_cast<std::size_t>(batch.places[i]);
      const std::int64_t token = batch.tokens[place];
      ++hidden_at[place];
      masked += token == mask;
      same += token == batch.wanted[i];
      if (token != batch.wanted[i]) ++shown[static_cast<std::size_t>(token)];
    }
  }
  constexpr double all = 15.0 * count;
  const auto near = [](double number, double share, double of) {
    EXPECT_NEAR(number, of * share, 5 * std::sqrt(of * share * (1 - share)));
  };
  near(masked, 0.8, all);
  near(same, 0.1 + 0.1 / mask, all);
  for (const double number : hidden_at) near(number, 0.15, count);
  for (std::size_t token = 0; token < mask; ++token) near(shown[token], 0.1 / mask * (mask - 1.0) / mask, all);
}

TEST(HideTokens, AddsToWhatIsThere) {
  const auto piece = piece_of(20);
  TextBatch batch;
  hide_tokens(piece, mask, Philox(3, Purpose::test, 1), batch);
  hide_tokens(piece, mask, Philox(3, Purpose::test, 2), batch);
  const TextBatch second = hidden(piece, 2);
  ASSERT_EQ(batch.places.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(batch.places[3 + i], 20 + second.places[i]);
  EXPECT_TRUE(std::equal(second.tokens.begin(), second.tokens.end(), batch.tokens.begin() + 20));
}

class Masked : public testing::Test {
 protected:
  static std::unique_ptr<Task> task_of(std::uint64_t seed, DataOptions data, std::size_t batch = 4) {
    const TaskEntry& entry = task_table().require("task", "masked");
    TaskSetup setup{
        .model = entry.read_model(parse_expression("model", small_bert)), .data = std::move(data), .seed = seed};
    setup.batch = batch;
    return entry.make(setup);
  }
};

TEST_F(Masked, EvaluatesTheSamePlacesAlways) {
  const auto task = task_of(5, {.test_size = 6});
  const auto text = open_text({}, Split::test);
  const auto model = make_language_model(masked_model_table().read("model", small_bert), 257, 5);
  TextBatch batch;
  for (std::uint64_t i = 0; i < 6; ++i) {  // the draws do not depend on the seed of the run
    hide_tokens(std::span(text->tokens).subspan(20 * i, 20), 256, Philox(0, Purpose::mask, i), batch);
  }
  const TokenSums sums = model->evaluate({batch.tokens, 20, batch.wanted, batch.places});
  const Tally tally = task->evaluate(Split::test, {});
  EXPECT_NEAR(tally[0], sums.loss, 1e-6 * sums.loss);
  EXPECT_EQ(tally[1], 18);
  EXPECT_EQ(tally[2], sums.right);
  const Metrics measured = task->metrics({30, 10, 4, 0});
  EXPECT_EQ(measured.value("loss"), 3);
  EXPECT_EQ(measured.value("accuracy"), 0.4);
  EXPECT_NEAR(measured.value("perplexity"), std::exp(3), 1e-12);
  EXPECT_NEAR(task->loss_of_guessing(), std::log(257), 1e-12);
}

// The text repeats a word as long as a piece, so that pieces differ only in their hidden places, and in where the epoch
// cuts.
TEST_F(Masked, HiddenPlacesDifferByEpochAndExample) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 20);
  write_file_atomic(folder / "train.txt", text);
  write_file_atomic(folder / "test.txt", text);
  const DataOptions data{.data = "text", .data_dir = folder.path().string()};
  const auto task = task_of(1, data, 1);
  const std::uint64_t epoch = task->epochs().each;
  std::set<double> losses;
  for (const std::uint64_t position : {0UL, 1UL, 2UL, epoch, epoch + 1, 2 * epoch}) {
    const double loss = task->accumulate_gradient(position, 1, 0, {});
    EXPECT_EQ(task->accumulate_gradient(position, 1, 7, {}), loss) << "whatever is dropped";
    losses.insert(loss);
  }
  EXPECT_EQ(losses.size(), 6U);
}

}  // namespace
}  // namespace sotto
