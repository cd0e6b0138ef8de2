#include "app/task/masked.h"

#include <algorithm>
#include <cmath>

#include "app/task/text_task.h"

namespace sotto {
namespace {

// Percents.
constexpr std::size_t share_hidden = 15;
constexpr std::uint32_t share_masked = 80, share_replaced = 10;

std::int64_t shown_for(std::uint16_t token, std::int64_t mask, Philox& random) {
  const std::uint32_t drawn = random.below(100);
  if (drawn < share_masked) return mask;
  if (drawn < share_masked + share_replaced) return random.below(static_cast<std::uint32_t>(mask));
  return token;
}

void add_hidden(const TextPiece& piece, Philox random, TextBatch& batch) {
  hide_tokens(piece.tokens.first(piece.tokens.size() - 1), piece.vocabulary, random, batch);
}

std::vector<double> loss_and_accuracy(const Tally& tally) {
  const double count = tally.at(1), loss = tally[0] / count;
  return {loss, tally.at(2) / count, std::exp(loss)};
}

}  // namespace

// Every example has the same number of hidden places, so the mean over a batch is the mean over its examples. The
// probability that a place is hidden is the share of the places from there on that must still be hidden, so all choices
// are equally likely.
void hide_tokens(std::span<const std::uint16_t> piece, std::int64_t mask, Philox random, TextBatch& batch) {
  const std::size_t size = piece.size();
  std::size_t left = std::max<std::size_t>(1, (share_hidden * size + 50) / 100);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint16_t token = piece[i];
    const bool hidden = random.below(static_cast<std::uint32_t>(size - i)) < left;
    if (hidden) {
      batch.places.push_back(static_cast<std::int64_t>(batch.tokens.size()));
      batch.wanted.push_back(token);
      --left;
    }
    batch.tokens.push_back(hidden ? shown_for(token, mask, random) : token);
  }
}

std::unique_ptr<Task> make_masked(const TaskSetup& setup) {
  return make_text_task(setup, {.metrics = masked_metrics,
                                .models = masked_model_table,
                                .marks = 1,
                                .add = add_hidden,
                                .values = loss_and_accuracy});
}

}  // namespace sotto
