#include "sotto/task/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/core/timer.h"
#include "sotto/data/order.h"
#include "sotto/data/text.h"
#include "sotto/model/language_model.h"

namespace sotto {
namespace {

// An evaluation computes at most about this many logits at a time: 64 MiB of them.
constexpr std::size_t most_logits = std::size_t{1} << 24;

// A text in pieces of `context` tokens and the one after them.
class Pieces {
 public:
  // Of the first `wanted` examples, or of all if that is 0. ConfigError when there are not so many, or none.
  Pieces(std::unique_ptr<Text> text, std::size_t context, std::int64_t wanted, std::string_view option)
      : text_(std::move(text)), context_(context) {
    const std::size_t size = text_->tokens.size();
    count_ = size < 2 * context_ ? 0 : (size - context_) / context_;
    if (static_cast<std::size_t>(wanted) > count_ || count_ == 0) {
      throw ConfigError(fmt::format("{}: the text of {} tokens has {} pieces of {}",
                                    named(option, std::to_string(wanted)), size, count_, context_));
    }
    if (wanted > 0) count_ = static_cast<std::size_t>(wanted);
  }

  std::size_t count() const { return count_; }
  std::size_t length() const { return context_ + 1; }  // of a piece
  std::int64_t vocabulary() const { return text_->vocabulary; }
  // Adds piece `index` to `tokens`, after leaving out the first `offset` tokens of the text, fewer than the context.
  void append(std::size_t index, std::size_t offset, std::vector<std::int64_t>& tokens) const {
    const auto begin = text_->tokens.begin() + static_cast<std::ptrdiff_t>(index * context_ + offset);
    tokens.insert(tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(length()));
  }

 private:
  std::unique_ptr<Text> text_;
  std::size_t context_, count_;
};

LanguageModelSpec language_spec_of(const ModelChoice& choice) {
  return {language_model_table().find(choice.name), choice.options, choice.place};
}

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const TaskSetup& setup);

  const Layout& layout() const override { return model_->layout(); }
  const Layout& buffer_layout() const override { return model_->buffer_layout(); }
  std::span<float> parameters() override { return model_->parameters(); }
  std::span<float> gradient() override { return model_->gradient(); }
  std::span<float> buffers() override { return model_->buffers(); }

  std::uint64_t examples(Split split) const override { return pieces(split).count(); }
  std::uint64_t positions_per_epoch() const override { return order_->positions_per_epoch(); }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override;
  double data_seconds() const override { return data_seconds_; }

  Tally evaluate(Split split, Share share) override;
  Tally& trained() override { return trained_; }
  Metrics metrics(const Tally& tally) const override {
    if (tally.at(1) == 0) return {language_metrics, {}};
    const double loss = tally[0] / tally[1];
    return {language_metrics, {loss, std::exp(loss)}};
  }
  const Metric& goal() const override { return language_metrics[0]; }
  double loss_of_guessing() const override { return std::log(static_cast<double>(test_->vocabulary())); }

 private:
  const Pieces& pieces(Split split) const {
    if (split == Split::test) return *test_;
    if (!train_) throw std::logic_error("this task has no training data");
    return *train_;
  }
  TokenBatch batch() const { return {tokens_, model_->context() + 1}; }

  std::uint64_t seed_;
  std::unique_ptr<LanguageModel> model_;
  std::optional<Pieces> train_, test_;
  std::optional<ExampleOrder> order_;
  std::size_t test_batch_;
  std::vector<std::int64_t> tokens_;  // of the current batch
  double data_seconds_ = 0;
  Tally trained_ = Tally(2);  // the sum of the losses, and the number of tokens
};

LanguageTask::LanguageTask(const TaskSetup& setup) : seed_(setup.seed) {
  std::unique_ptr<Text> test = open_text(setup.data, Split::test);
  std::unique_ptr<Text> train = setup.batch > 0 ? open_text(setup.data, Split::train) : nullptr;
  model_ = make_language_model(language_spec_of(setup.model), test->vocabulary, setup.seed);
  const std::size_t context = model_->context();
  const auto logits = context * static_cast<std::size_t>(test->vocabulary);
  test_batch_ = std::min(setup.test_batch, std::max<std::size_t>(1, most_logits / logits));
  test_.emplace(std::move(test), context, setup.data.test_size, "test-size");
  if (!train) return;
  train_.emplace(std::move(train), context, setup.data.train_size, "train-size");
  order_.emplace(train_->count(), OrderOptions{setup.seed, setup.share.rank, setup.share.ranks, setup.batch});
}

double LanguageTask::accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                                         const SegmentCalls& calls) {
  Timer waiting;
  Philox cut(seed_, Purpose::augment, position / order_->positions_per_epoch());
  const std::size_t offset = cut.below(static_cast<std::uint32_t>(model_->context()));
  tokens_.clear();
  for (const std::uint32_t example : order_->at(position)) train_->append(example, offset, tokens_);
  data_seconds_ = waiting.seconds();
  const double loss = model_->accumulate_gradient(batch(), scale, random, calls);
  const auto predicted = static_cast<double>(batch().count() * model_->context());
  trained_[0] += loss * predicted;
  trained_[1] += predicted;
  return loss;
}

// Evaluates every `ranks`-th piece, beginning with piece `rank`.
Tally LanguageTask::evaluate(Split split, Share share) {
  const Pieces& all = pieces(split);
  Tally total(2);
  const auto flush = [&] {
    total[0] += model_->evaluate(batch());
    total[1] += static_cast<double>(batch().count() * model_->context());
    tokens_.clear();
  };
  tokens_.clear();
  const auto stride = static_cast<std::size_t>(share.ranks);
  for (auto i = static_cast<std::size_t>(share.rank); i < all.count(); i += stride) {
    all.append(i, 0, tokens_);
    if (batch().count() == test_batch_) flush();
  }
  flush();
  return total;
}

}  // namespace

std::string language_models() {
  std::string text;
  for (const LanguageModelEntry& model : language_model_table()) {
    text +=
        fmt::format("  {:<12} {}; {}, lr {}\n", model.name, model.summary, model.default_optimiser, model.default_lr);
  }
  return text + language_model_table().options();
}

ModelChoice read_language_model(const Sentence& sentence) {
  LanguageModelSpec spec = language_model_table().read(sentence);
  const ModelDefaults defaults{spec.entry->default_lr, 0.9, spec.entry->default_optimiser};
  return {spec.entry->name, std::move(spec.options), std::move(spec.place), defaults};
}

std::unique_ptr<Task> make_language(const TaskSetup& setup) { return std::make_unique<LanguageTask>(setup); }

}  // namespace sotto
