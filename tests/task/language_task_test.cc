// How the language task cuts and counts a text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "app/data/text/text.h"
#include "app/model/language_model.h"
#include "app/task/table.h"
#include "sotto/core/file.h"
#include "tests/core/helpers.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

constexpr std::string_view small_gpt = "gpt-mini(layers=1, heads=2, width=8, context=10)";

TaskSetup setup_of(DataOptions data, std::string_view model = small_gpt) {
  TaskSetup setup{.model = task_table().require("task", "language").read_model(parse_expression("model", model)),
                  .data = std::move(data)};
  setup.batch = 3;
  return setup;
}

std::unique_ptr<Task> task_of(const TaskSetup& setup) { return task_table().require("task", "language").make(setup); }

// 100 tokens are cut into pieces of 10. The last 10 are room for cutting at other places, and the very last one is
// never read.
TEST(Language, CutsTheTextIntoPieces) {
  const test::TemporaryFolder folder;
  write_file_atomic(folder / "train.txt", std::string(100, 'a') + std::string(11, 'b'));
  write_file_atomic(folder / "test.txt", std::string(47, 'c'));
  const auto task = task_of(setup_of({.data = "text", .data_dir = folder.path().string()}));
  EXPECT_EQ(task->examples(Split::train), 10U);
  EXPECT_EQ(task->examples(Split::test), 4U) << "whose last piece is not complete";
  EXPECT_EQ(task->epochs().each, 3U);
  EXPECT_NEAR(task->loss_of_guessing(), std::log(256), 1e-12);
}

TEST(Language, EvaluatesAllPieces) {
  TaskSetup setup = setup_of({.test_size = 7});
  const auto task = task_of(setup);
  const auto text = open_text({}, Split::test);
  const auto model = make_language_model(language_model_table().read("model", small_gpt), 256, setup.seed);
  ASSERT_TRUE(std::ranges::equal(task->parameters(), model->parameters()));
  const std::vector<std::int64_t> tokens(text->tokens.begin(), text->tokens.begin() + 70);
  const std::vector<std::int64_t> next(text->tokens.begin() + 1, text->tokens.begin() + 71);
  const Metrics measured = task->metrics(task->evaluate(Split::test, {}));
  EXPECT_NEAR(measured.value("loss"), model->evaluate({tokens, 10, next}).loss / 70, 1e-6);
  EXPECT_NEAR(measured.value("perplexity"), std::exp(measured.value("loss")), 1e-12);
  EXPECT_NEAR(measured.value("bits"), measured.value("loss") / std::log(2), 1e-12) << "a token is a byte";
}

// 100 pieces of 10 tokens; a token stands for several bytes.
TEST(Language, CountsBytesOfTokens) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i) + " of a text\n";
  write_file_atomic(folder / "train.txt", text);
  write_file_atomic(folder / "test.txt", text);
  DataOptions data{.data = "text", .data_dir = folder.path().string(), .tokens = "sentencepiece"};
  make_text_vocabulary(data, 300);
  data.test_size = 100;
  const auto task = task_of(setup_of(data));
  EXPECT_NEAR(task->loss_of_guessing(), std::log(300), 1e-12);
  const auto tokens = open_text(data, Split::test);
  const double bytes = std::accumulate(tokens->bytes.begin() + 1, tokens->bytes.begin() + 1001, 0.0);
  EXPECT_GT(bytes, 2000);
  const Metrics measured = task->metrics(task->evaluate(Split::test, {}));
  EXPECT_NEAR(measured.value("bits"), measured.value("loss") * 1000 / bytes / std::log(2), 1e-9);
  const auto masked = task_table().require("task", "masked");
  TaskSetup setup = setup_of(data);
  setup.model = masked.read_model(parse_expression("model", "bert-mini(layers=1, heads=1, width=8, context=10)"));
  EXPECT_NEAR(masked.make(setup)->loss_of_guessing(), std::log(301), 1e-12) << "with the mark";
}

// Epochs cut the text at different places, so their losses differ.
TEST(Language, EpochsAreCutElsewhere) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 110; ++i) text += static_cast<char>('!' + i % 90);
  write_file_atomic(folder / "train.txt", text);
  write_file_atomic(folder / "test.txt", text);
  TaskSetup setup = setup_of({.data = "text", .data_dir = folder.path().string()});
  setup.batch = 10;
  const auto task = task_of(setup);
  std::vector<double> losses;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) losses.push_back(task->accumulate_gradient(epoch, 1, 0, {}));
  std::ranges::sort(losses);
  EXPECT_GT(std::ranges::unique(losses).begin() - losses.begin(), 2);
}

TEST(Language, RefusesWhatDoesNotFit) {
  const auto refusal = [](const DataOptions& data, std::string_view model = small_gpt) {
    return test::message_of([&] { task_of(setup_of(data, model)); });
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal({.train_size = 99'999}),
                  "train-size 99999: the training text has 1000000 tokens, which are 99999 pieces") ||
              has(refusal({.train_size = 100'000}),
                  "train-size 100000: the training text has 1000000 tokens, which are 99999 pieces"));
  EXPECT_TRUE(has(refusal({.augment = "crop-flip"}), "augment crop-flip: is for images"));
  EXPECT_TRUE(has(refusal({.data = "digits"}), "unknown data set `digits`"));
  EXPECT_TRUE(has(refusal({}, "gpt-mini(heads=3)"), "width 128 cannot be shared by 3 heads"));
  const test::TemporaryFolder folder;
  write_file_atomic(folder / "train.txt", std::string_view("too short"));
  write_file_atomic(folder / "test.txt", std::string(100, 'c'));
  EXPECT_TRUE(has(refusal({.data = "text", .data_dir = folder.path().string()}), "which are 0 pieces of 10"));
}

}  // namespace
}  // namespace sotto
