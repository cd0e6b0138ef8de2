#include "app/task/language.h"

#include <cmath>
#include <numbers>

#include "app/task/text_task.h"

namespace sotto {
namespace {

void add_next(const TextPiece& piece, Philox /*random*/, TextBatch& batch) {
  batch.tokens.insert(batch.tokens.end(), piece.tokens.begin(), piece.tokens.end() - 1);
  batch.wanted.insert(batch.wanted.end(), piece.tokens.begin() + 1, piece.tokens.end());
  batch.bytes += piece.bytes;
}

std::vector<double> loss_and_bits(const Tally& tally) {
  const double loss = tally.at(0) / tally.at(1);
  return {loss, std::exp(loss), tally[0] / std::numbers::ln2 / tally.at(3)};
}

}  // namespace

std::unique_ptr<Task> make_language(const TaskSetup& setup) {
  return make_text_task(
      setup, {.metrics = language_metrics, .models = language_model_table, .add = add_next, .values = loss_and_bits});
}

}  // namespace sotto
