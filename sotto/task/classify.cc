#include "sotto/task/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sotto/core/timer.h"
#include "sotto/data/dataset.h"
#include "sotto/data/loader.h"
#include "sotto/model/model.h"

namespace sotto {
namespace {

void add(const Score& score, Tally& tally) {
  tally[0] += score.loss;
  tally[1] += static_cast<double>(score.count);
  tally[2] += static_cast<double>(score.top1);
  tally[3] += static_cast<double>(score.top5);
}

class Classify final : public Task {
 public:
  explicit Classify(const TaskSetup& setup)
      : train_(setup.batch > 0 ? open_dataset(setup.data, Split::train) : nullptr),
        test_(open_dataset(setup.data, Split::test)),
        model_(make_model(model_table().require(setup.model_from, setup.model), shape(), classes(), setup.seed)),
        test_batch_(std::min(setup.test_batch, std::max<std::size_t>(1, test_->size()))) {
    if (train_) {
      loader_.emplace(*train_,
                      LoaderOptions{setup.seed, setup.share.rank, setup.share.ranks, setup.batch, setup.prefetch});
    }
  }

  const Layout& layout() const override { return model_->layout(); }
  const Layout& buffer_layout() const override { return model_->buffer_layout(); }
  std::span<float> parameters() override { return model_->parameters(); }
  std::span<float> gradient() override { return model_->gradient(); }
  std::span<float> buffers() override { return model_->buffers(); }

  std::uint64_t examples(Split split) const override { return data(split).size(); }
  std::uint64_t positions_per_epoch() const override { return loader_->steps_per_epoch(); }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override {
    Timer waiting;
    const Batch batch = loader_->at(position);
    data_seconds_ = waiting.seconds();
    Score score;
    const double loss = model_->accumulate_gradient(batch, scale, random, calls, &score);
    add(score, trained_);
    return loss;
  }
  double data_seconds() const override { return data_seconds_; }

  Tally evaluate(Split split, Share share) override;
  Tally& trained() override { return trained_; }
  Metrics metrics(const Tally& tally) const override {
    const double count = tally.at(1);
    if (count == 0) return {classify_metrics, {}};
    return {classify_metrics, {tally[0] / count, tally.at(2) / count, tally.at(3) / count}};
  }
  const Metric& goal() const override { return *metric_table(classify_metrics).find("accuracy"); }
  double loss_of_guessing() const override {
    return std::log(static_cast<double>(std::max<std::int64_t>(2, test_->classes())));
  }

 private:
  const Dataset& data(Split split) const {
    if (split == Split::test) return *test_;
    if (!train_) throw std::logic_error("this task has no training data");
    return *train_;
  }
  ImageShape shape() const { return (train_ ? train_ : test_)->shape(); }
  std::int64_t classes() const { return (train_ ? train_ : test_)->classes(); }

  std::unique_ptr<Dataset> train_, test_;
  std::unique_ptr<Model> model_;
  std::size_t test_batch_;
  std::optional<Loader> loader_;
  double data_seconds_ = 0;
  Tally trained_ = Tally(4);
};

// Evaluates every `ranks`-th example, beginning with example `rank`.
Tally Classify::evaluate(Split split, Share share) {
  const Dataset& examples = data(split);
  const std::size_t image = examples.shape().size();
  std::vector<float> images(test_batch_ * image);
  std::vector<std::int64_t> labels(test_batch_);
  Tally total(4);
  std::size_t filled = 0;
  const auto flush = [&] {
    if (filled == 0) return;
    add(model_->evaluate({std::span<const float>(images).first(filled * image),
                          std::span<const std::int64_t>(labels).first(filled), examples.shape()}),
        total);
    filled = 0;
  };
  const auto stride = static_cast<std::size_t>(share.ranks);
  for (auto i = static_cast<std::size_t>(share.rank); i < examples.size(); i += stride) {
    examples.read(i, std::span(images).subspan(filled * image, image), labels[filled]);
    if (++filled == test_batch_) flush();
  }
  flush();
  return total;
}

}  // namespace

std::string classify_models() {
  std::string text;
  for (const ModelEntry& model : model_table()) {
    text += fmt::format("  {:<12} {}; lr {}, momentum {}\n", model.name, model.summary, model.default_lr,
                        model.default_momentum);
  }
  return text;
}

ModelDefaults classify_defaults(std::string_view model) {
  const ModelEntry& entry = model_table().require("model", model);
  return {entry.default_lr, entry.default_momentum};
}

std::unique_ptr<Task> make_classify(const TaskSetup& setup) { return std::make_unique<Classify>(setup); }

}  // namespace sotto
