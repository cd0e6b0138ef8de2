#include "app/task/text_task.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "app/data/text/text.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// An evaluation computes at most about this many logits at a time: 64 MiB of them.
constexpr std::size_t most_logits = std::size_t{1} << 24;

// A text in pieces of `context` tokens and the one after them.
class Pieces {
 public:
  // Uses the first `wanted` pieces; 0: all. ConfigError if there are fewer, or none.
  Pieces(std::unique_ptr<Text> text, std::size_t context, std::int64_t wanted, std::string_view option)
      : text_(std::move(text)), context_(context) {
    const std::size_t size = text_->tokens.size();
    const bool tests = option == "test-size";
    const std::size_t reserve = tests ? 1 : context_;  // training leaves out some of the first tokens
    count_ = size < reserve + context_ ? 0 : (size - reserve) / context_;
    if (static_cast<std::size_t>(wanted) > count_ || count_ == 0) {
      const std::string what = tests ? "test" : "training";
      throw ConfigError(fmt::format(
          "{}: the {} text has {} tokens, which are {} pieces of {} tokens; use a longer text "
          "or a smaller context",
          wanted > 0 ? named(option, std::to_string(wanted)) : named("data"), what, size, count_, context_));
    }
    if (wanted > 0) count_ = static_cast<std::size_t>(wanted);
  }

  std::size_t size() const { return count_; }
  std::int64_t vocabulary() const { return text_->vocabulary; }
  const std::string& meaning() const { return text_->meaning; }
  // Piece `index` of the text without its first `offset` tokens. REQUIRES offset < context; 0 for a test text.
  TextPiece at(std::size_t index, std::size_t offset) const {
    const std::size_t begin = index * context_ + offset;
    TextPiece piece{std::span(text_->tokens).subspan(begin, context_ + 1), vocabulary(), static_cast<double>(context_)};
    if (!text_->bytes.empty()) {
      const auto bytes = std::span(text_->bytes).subspan(begin + 1, context_);
      piece.bytes = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    }
    return piece;
  }

 private:
  std::unique_ptr<Text> text_;
  std::size_t context_, count_;
};

class TextTask final : public ModelTask<LanguageModel, Pieces, ExampleOrder> {
 public:
  TextTask(const TaskSetup& setup, const TextTraits& traits)
      : ModelTask(nullptr, nullptr, 4, traits.metrics),  // pieces are as long as the model wants
        traits_(traits),
        seed_(setup.seed) {
    std::unique_ptr<Text> test = open_text(setup.data, Split::test);
    std::unique_ptr<Text> train = setup.batch > 0 ? open_text(setup.data, Split::train) : nullptr;
    model_ = make_language_model(setup.model.in(traits.models()), test->vocabulary + traits.marks, setup.seed);
    model_->compute_in(setup.precision);
    const std::size_t context = model_->context();
    const auto logits = context * static_cast<std::size_t>(test->vocabulary);
    test_batch_ = std::min(setup.test_batch, std::max<std::size_t>(1, most_logits / logits));
    test_ = std::make_unique<Pieces>(std::move(test), context, setup.data.test_size, "test-size");
    if (!train) return;
    train_ = std::make_unique<Pieces>(std::move(train), context, setup.data.train_size, "train-size");
    order_.emplace(train_->size(), OrderOptions{setup.seed, setup.share.rank, setup.share.ranks, setup.batch});
  }

  std::uint64_t sample_hash(Split split) const override {
    return hash_of_some(split, 256, [](Hash& hash, const Pieces& pieces, std::size_t i) {
      for (const std::uint16_t token : pieces.at(i, 0).tokens) hash.add(token);
    });
  }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override {
    Timer waiting;
    const std::uint64_t epoch = order_->epochs().at(position).epoch;
    const std::size_t offset =
        Philox(seed_, Purpose::augment, epoch).below(static_cast<std::uint32_t>(model_->context()));
    clear();
    for (const std::uint32_t example : order_->at(position)) {
      const Philox own(seed_, Purpose::mask, epoch << 32U | example);
      traits_.add(train_->at(example, offset), own, batch_);
    }
    data_seconds_ = waiting.seconds();
    const TokenSums sums = model_->accumulate_gradient(batch(), scale, random, calls);
    count(sums, trained_);
    return sums.loss / static_cast<double>(batch().wanted.size());
  }

  // Evaluates every `ranks`-th piece, beginning with piece `rank`.
  Tally evaluate(Split split, Share share, const AfterBatch& after_batch) override {
    const Pieces& all = data(split);
    Tally total(trained_.size());
    std::uint64_t done = 0;
    const auto flush = [&] {
      count(model_->evaluate(batch()), total);
      if (after_batch) after_batch(done += batch().count());
      clear();
    };
    clear();
    const auto stride = static_cast<std::size_t>(share.ranks);
    for (auto i = static_cast<std::size_t>(share.rank); i < all.size(); i += stride) {
      traits_.add(all.at(i, 0), Philox(0, Purpose::mask, i), batch_);
      if (batch().count() == test_batch_) flush();
    }
    flush();
    return total;
  }

  std::vector<double> values(const Tally& tally) const override { return traits_.values(tally); }
  double loss_of_guessing() const override {
    return std::log(static_cast<double>(test_->vocabulary() + traits_.marks));
  }

 private:
  TokenBatch batch() const { return {batch_.tokens, model_->context(), batch_.wanted, batch_.places}; }
  void clear() {
    for (auto* part : {&batch_.tokens, &batch_.wanted, &batch_.places}) part->clear();
    batch_.bytes = 0;
  }
  void count(const TokenSums& sums, Tally& tally) const {
    tally[0] += sums.loss;
    tally[1] += static_cast<double>(batch_.wanted.size());
    tally[2] += sums.right;
    tally[3] += batch_.bytes;
  }

  TextTraits traits_;
  std::uint64_t seed_;
  std::size_t test_batch_;
  TextBatch batch_;  // the current one
};

void add_next(const TextPiece& piece, Philox /*random*/, TextBatch& batch) {
  batch.tokens.insert(batch.tokens.end(), piece.tokens.begin(), piece.tokens.end() - 1);
  batch.wanted.insert(batch.wanted.end(), piece.tokens.begin() + 1, piece.tokens.end());
  batch.bytes += piece.bytes;
}

std::vector<double> loss_and_bits(const Tally& tally) {
  const double loss = tally.at(0) / tally.at(1);
  return {loss, std::exp(loss), tally[0] / std::numbers::ln2 / tally.at(3)};
}

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

std::unique_ptr<Task> make_text_task(const TaskSetup& setup, const TextTraits& traits) {
  return std::make_unique<TextTask>(setup, traits);
}

std::unique_ptr<Task> make_language(const TaskSetup& setup) {
  return make_text_task(
      setup, {.metrics = language_metrics, .models = language_model_table, .add = add_next, .values = loss_and_bits});
}

// Every example has the same number of hidden places, so the mean over a batch is the mean over its examples. Goes
// through the places; the probability of hiding one is (places still to hide) / (places left), so all choices are
// equally likely.
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
