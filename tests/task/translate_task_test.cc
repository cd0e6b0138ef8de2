// The counts of the translation task.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "app/data/text/pairs.h"
#include "app/model/translation_model.h"
#include "app/task/table.h"
#include "app/task/translate.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

constexpr std::string_view small_transformer =
    "transformer-tiny(layers=1, heads=2, width=8, inner=8, context=12, beam=2)";

std::unique_ptr<Task> translate_task(std::string_view model = small_transformer) {
  const TaskEntry& entry = task_table().require("task", "translate");
  TaskSetup setup{.model = entry.read_model(parse_expression("model", model)),
                  .data = {.train_size = 40, .test_size = 9}};
  setup.batch = 4;
  return entry.make(setup);
}

TEST(Translate, EvaluatesEveryPair) {
  const auto task = translate_task();
  const auto pairs = open_pairs({.test_size = 9}, Split::test);
  const TranslationModelSpec spec = translation_model_table().read("model", small_transformer);
  const auto model = spec.entry->make(spec.options, spec.source_text(), pairs->vocabulary->size(), 1);
  double loss = 0, tokens = 0;
  BleuCounts counts{};
  for (std::size_t i = 0; i < 9; ++i) {
    std::vector<std::int64_t> source(pairs->sources[i].begin(), pairs->sources[i].end()), target{begin_token};
    source.push_back(end_token);
    target.insert(target.end(), pairs->targets[i].begin(), pairs->targets[i].end());
    target.push_back(end_token);
    const TokenLoss one = model->evaluate({source, source.size()}, {target, target.size()});
    loss += one.sum;
    tokens += one.tokens;
    const std::string found = pairs->vocabulary->decode(model->translate({source, source.size()})[0]);
    const BleuCounts its = bleu_counts(found, pairs->references[i]);
    for (std::size_t k = 0; k < its.size(); ++k) counts[k] += its[k];
  }
  const Tally tally = task->evaluate(Split::test, {});
  EXPECT_EQ(tally[1], tokens);
  const Metrics measured = task->metrics(tally);
  EXPECT_NEAR(measured.value("loss"), loss / tokens, 1e-5);
  EXPECT_NEAR(measured.value("bleu"), bleu_score(counts), 1e-9);
}

TEST(Translate, CountsWhatItTrains) {
  const auto task = translate_task();
  double sum = 0, tokens = 0;
  for (std::uint64_t position = 0; position < task->epochs().each; ++position) {
    const double before = task->trained()[1];
    const double loss = task->accumulate_gradient(position, 1, 0, {});
    sum += loss * (task->trained()[1] - before);
    tokens = task->trained()[1];
  }
  const auto pairs = open_pairs({.train_size = 40}, Split::train);
  double wanted = 0;
  for (const auto& target : pairs->targets) wanted += static_cast<double>(target.size()) + 1;
  EXPECT_EQ(tokens, wanted) << "one epoch";
  EXPECT_NEAR(task->metrics(task->trained()).value("loss"), sum / tokens, 1e-9);
  EXPECT_TRUE(std::isnan(task->metrics(task->trained()).value("bleu")));
}

TEST(Translate, RefusesPairsThatAreTooLong) {
  const std::string refusal = test::message_of([] { translate_task("transformer-tiny(heads=1, width=8, context=8)"); });
  EXPECT_NE(refusal.find("tokens with its marks, the model's context is 8"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace sotto
