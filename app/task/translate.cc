#include "app/task/translate.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "app/data/text/pairs.h"
#include "app/model/translation_model.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr std::size_t tokens_tested = 2000;  // about so many, with pads, are translated at a time

// Some sentences, filled up to the same length.
struct Filled {
  std::vector<std::int64_t> tokens;
  std::size_t length = 1;
  SentenceBatch view() const { return {tokens, length}; }
};

Filled fill_up(std::span<const std::uint32_t> examples, const std::vector<std::vector<std::uint16_t>>& sentences,
               bool begins) {
  Filled filled;
  for (const std::uint32_t example : examples) {
    filled.length = std::max(filled.length, sentences[example].size() + 1 + std::size_t{begins});
  }
  for (const std::uint32_t example : examples) {
    const std::size_t end = filled.tokens.size() + filled.length;
    if (begins) filled.tokens.push_back(begin_token);
    filled.tokens.insert(filled.tokens.end(), sentences[example].begin(), sentences[example].end());
    filled.tokens.push_back(end_token);
    filled.tokens.resize(end, pad_token);
  }
  return filled;
}

// The length of the longer sentence, with its marks.
std::size_t length_of(const Pairs& pairs, std::size_t example) {
  return std::max(pairs.sources[example].size() + 1, pairs.targets[example].size() + 2);
}

// A tally has the sum of the losses, the number of tokens, and BleuCounts.
class TranslateTask final : public ModelTask<TranslationModel, Pairs, LengthOrder> {
 public:
  explicit TranslateTask(const TaskSetup& setup)
      : ModelTask{setup.batch > 0 ? open_pairs(setup.data, Split::train) : nullptr, open_pairs(setup.data, Split::test),
                  2 + std::tuple_size_v<BleuCounts>, translate_metrics} {
    const TranslationModelSpec spec = setup.model.in(translation_model_table());
    model_ = spec.entry->make(spec.options, spec.source_text(), test_->vocabulary->size(), setup.seed);
    model_->compute_in(setup.precision);
    require_short(*test_, "test");
    texts_.resize(test_->size());
    if (!train_) return;
    require_short(*train_, "training");
    std::vector<std::size_t> lengths(train_->size());
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = length_of(*train_, i);
    order_.emplace(lengths, OrderOptions{setup.seed, setup.share.rank, setup.share.ranks, setup.batch});
  }

  std::uint64_t sample_hash(Split split) const override {
    return hash_of_some(split, 256, [](Hash& hash, const Pairs& pairs, std::size_t i) {
      for (const auto* sentence : {&pairs.sources[i], &pairs.targets[i]}) {
        hash.add(sentence->size());
        for (const std::uint16_t token : *sentence) hash.add(token);
      }
    });
  }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override {
    Timer waiting;
    const auto examples = order_->at(position);
    const Filled source = fill_up(examples, train_->sources, false), target = fill_up(examples, train_->targets, true);
    data_seconds_ = waiting.seconds();
    const TokenLoss loss = model_->accumulate_gradient(source.view(), target.view(), scale, random, calls);
    trained_[0] += loss.sum;
    trained_[1] += loss.tokens;
    return loss.sum / loss.tokens;
  }

  // Evaluates every `ranks`-th pair of those sorted by length, beginning with pair `rank`.
  Tally evaluate(Split split, Share share, const AfterBatch& after_batch) override {
    const Pairs& all = data(split);
    std::vector<std::uint32_t> sorted(all.size()), mine;
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::ranges::stable_sort(sorted, {}, [&](std::uint32_t i) { return length_of(all, i); });
    const auto stride = static_cast<std::size_t>(share.ranks);
    for (auto i = static_cast<std::size_t>(share.rank); i < sorted.size(); i += stride) mine.push_back(sorted[i]);

    if (split == Split::test) texts_.assign(all.size(), "");
    Tally total(trained_.size());
    for (std::size_t begin = 0, end = 0; begin < mine.size(); begin = end) {
      while (end < mine.size() && (end + 1 - begin) * length_of(all, mine[end]) <= tokens_tested) ++end;
      end = std::max(end, begin + 1);
      const auto examples = std::span<const std::uint32_t>(mine).subspan(begin, end - begin);
      const Filled source = fill_up(examples, all.sources, false);
      const TokenLoss loss = model_->evaluate(source.view(), fill_up(examples, all.targets, true).view());
      total[0] += loss.sum;
      total[1] += loss.tokens;
      if (split == Split::test) {
        const auto found = model_->translate(source.view());
        for (std::size_t i = 0; i < examples.size(); ++i) {
          const std::string& text = texts_[examples[i]] = all.vocabulary->decode(found[i]);
          const BleuCounts counts = bleu_counts(text, all.references[examples[i]]);
          for (std::size_t k = 0; k < counts.size(); ++k) total[2 + k] += counts[k];
        }
      }
      if (after_batch) after_batch(end);
    }
    return total;
  }

  std::span<const std::string> texts() const override { return texts_; }
  std::vector<double> values(const Tally& tally) const override {
    const double loss = tally[0] / tally[1];
    const auto counts = std::span(tally).subspan(2);
    const bool translated = counts.back() > 0;  // words of references
    return {loss, std::exp(loss), translated ? bleu_score(counts) : std::numeric_limits<double>::quiet_NaN()};
  }
  double loss_of_guessing() const override { return std::log(static_cast<double>(test_->vocabulary->size())); }

 private:
  void require_short(const Pairs& pairs, std::string_view which) const {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (length_of(pairs, i) > model_->context()) {
        throw ConfigError(
            fmt::format("{}: pair {} of the {} data has {} tokens with its marks, the model's context is {}",
                        named("model", model_->name()), i + 1, which, length_of(pairs, i), model_->context()));
      }
    }
  }

  std::vector<std::string> texts_;  // translations of the test data
};

}  // namespace

std::unique_ptr<Task> make_translate(const TaskSetup& setup) { return std::make_unique<TranslateTask>(setup); }

}  // namespace sotto
